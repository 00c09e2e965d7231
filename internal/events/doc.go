// Package events passes what happens on a node on to who watches. A [Hub] never
// blocks who publishes: while nobody watches, publishing is one atomic load;
// otherwise one filter and one attempt to put the event into each watcher's
// bounded buffer. What does not fit is lost and counted, for each watcher by
// itself.
package events
