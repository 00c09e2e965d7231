// Package archive keeps the history of limits on a node's disk: a point for each minute and
// hour with demand, and for every minute and hour whether its data are complete. It also
// keeps the lists of the most requested keys.
//
// Minutes are in one file per day and hours in one file per month. Data that are too old are
// removed with their file, so nothing is rewritten to delete them. A file is a bbolt database.
// For each range it maps
//
//	time            -> what is known of the range then (Coverage)
//	time, limit     -> the point
//
// with limits by number; the file also maps numbers to names. Entries that arrive in the order
// of time are appended. A repeated entry replaces the stored one: points are sums that only
// become more complete.
//
// A damaged file is renamed and counts as empty: history is worth less than decisions. The
// same holds for a full disk: Put fails, and nothing else.
//
// Config bounds the days and months to keep and the total size; beyond the size the oldest
// days are removed first. An Archive is safe for concurrent use.
package archive
