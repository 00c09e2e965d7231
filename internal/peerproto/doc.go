// Package peerproto writes reports and grants as messages and reads them back:
// between nodes, and between a client process and its node.
//
// Encode and Decode lose nothing. They are for nodes, which trust each other: what
// is decoded may hold any number that fits. Parse is for whoever is trusted less:
// it decodes only what a member may say, or a leader may answer, and names the
// field, the value and what would be right of anything else.
//
// # The packed form
//
// Between nodes reports and grants are packed
// (PackReports, PackGrants): about 20 and 24 bytes for a key in use instead of 80 and
// 110, without an allocation for each. It is a byte with the number of the form, and
// unsigned varints: for each entry one with a bit for each field that it has, and then
// those. It is no Protocol Buffers message: what a later version adds is another form.
// Levels and demands in grants are rounded.
// Nothing is remembered between messages.
//
// # Bounds
//
// A report or a grant that is parsed has at most MaxEntries keys, each with names
// that a counter can have, amounts of 0 to quota.Most and no duration below 0. A packed
// message has at most MaxPacked keys, names of at most 4096 bytes, amounts within
// quota.Most and no duration below 0; FuzzUnpack holds it to that.
package peerproto
