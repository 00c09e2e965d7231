// Package peerproto encodes and decodes reports and grants, between nodes and between a client
// process and its node.
//
// Encode and Decode lose nothing. They are for nodes, which trust each other: decoded values may
// hold any number that fits. Parse is for less trusted senders: it accepts only what a member may
// send or a leader may answer, and for anything else names the field, the value and what would be
// valid.
//
// # The packed form
//
// Between nodes, reports and grants are packed (PackReports, PackGrants): about 20 and 24 bytes for
// a key in use instead of 80 and 110, without an allocation per key. A packed message is a byte
// with the number of the form, followed by unsigned varints: per entry a bit mask of its fields,
// then the fields. It is not a Protocol Buffers message, so new fields of a later version need a
// new form. Levels and demands in grants are rounded. The encoding keeps no state between messages.
//
// # Bounds
//
// A parsed report or grant has at most MaxEntries keys, each with names that a counter can have,
// amounts of 0 to quota.Most and no negative duration. A packed message has at most MaxPacked keys,
// names of at most 4096 bytes, amounts within quota.Most and no negative duration; FuzzUnpack
// checks this.
package peerproto
