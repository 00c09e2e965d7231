// Package clients has the client processes that are attached to a node.
//
// What a process counts is booked in the branch (package branch) on the goroutine that reads its
// stream, and settled into the node's aggregator. A goroutine of the [Service] sends what answers no
// report: grants that came later, recalls, limits and overrides.
//
// # A stream that breaks
//
// The process brings the final report of the attachment that broke to whatever node it attaches to
// next. It is booked there if the attachment was to that node, sent to the node that it was to if that
// one lives, and otherwise inherited: what the dead process had not acknowledged is booked at the
// new node. Which reports a node had booked is in a journal of its own, so that, when it comes back,
// what was booked there and inherited elsewhere is given back once.
//
// # Bounds
//
// [Max] processes, and as many attachments that broke; seven eighths of the free places for one
// identity. 512 MiB of final reports that wait, 64 MiB of one process.
package clients
