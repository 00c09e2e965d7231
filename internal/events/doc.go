// Package events distributes the events of a node to watchers. A [Hub] never blocks publishers:
// without watchers, publishing is one atomic load; otherwise it applies each watcher's filter and
// tries to send to its bounded buffer. Events that do not fit are lost and counted per watcher.
package events
