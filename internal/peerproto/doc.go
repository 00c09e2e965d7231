// Package peerproto writes reports and grants as messages and reads them back:
// between nodes, and between a client process and its node.
//
// Encode and Decode lose nothing. They are for nodes, which trust each other: what
// is decoded may hold any number that fits. Parse is for whoever is trusted less:
// it decodes only what a member may say, or a leader may answer, and names the
// field, the value and what would be right of anything else.
//
// # Bounds
//
// A report or a grant that is parsed has at most MaxEntries keys, each with names
// that a counter can have, amounts of 0 to quota.Most and no duration below 0.
package peerproto
