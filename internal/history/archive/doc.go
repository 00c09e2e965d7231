// Package archive keeps the history of limits on a node's disk: a point for each minute
// and hour in which there was demand, and for every one of them whether it is complete.
//
// Minutes are in a file for each day, hours in a file for each month, so that what is too
// old goes with its file: nothing is rewritten to forget. A file is a bbolt database. For
// each range it has
//
//	time            -> what is known of the range then (Coverage)
//	time, limit     -> the point
//
// with limits by number, which the file itself explains. Entries that come in the order
// of time are appended, and what comes again replaces what is there: points are made of
// sums that only grow more complete.
//
// A file that is damaged is set aside under another name, and counts as empty: history is
// worth less than decisions. The same holds for a full disk: Put fails, and nothing else.
//
// Bounds: days and months to keep (Config), and bytes in all, beyond which the oldest
// days go first. Safe for concurrent use.
package archive
