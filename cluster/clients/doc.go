// Package clients serves the client processes that are attached to a node.
//
// The goroutine that reads a process's stream books the process's counts in the client ledger (package
// clientledger) and settles them into the node's aggregator. A goroutine of the [Service] sends the messages
// that answer no report: late grants, recalls, limits and overrides.
//
// # Broken streams
//
// When a stream breaks, the process brings the final report of that session to the node to which
// it attaches next. If the session was to that node, the node books the report. If the session
// was to another node that lives, the node relays the report to it. Otherwise it inherits the
// session: it books what the dead node had not acknowledged. Under hard that is overdrafts only,
// because all that the dead node had allocated counts as used. Each node journals the reports that
// it has booked. When a dead node comes back, counts that were booked there and inherited elsewhere
// are given back once.
//
// # Bounds
//
// [Max] processes, and as many broken sessions. One owner, an identity or an address without one, gets at most
// seven eighths of the places that it finds free. Pending final reports take at most 512 MiB, shared among
// owners in the same way, and 64 MiB per process.
package clients
