// Package attach is the interface between a node and the server of MemberService: a client process
// attaches, reports, settles, and receives messages from the node.
//
// A [Host] is a node. The server creates an [Outbox] for each attachment and sends what the host
// puts into it. It passes what the process sends to the [Session] that it got from the host. All
// input is validated before: see peerproto.ParseReport.
//
// # Bounds
//
// An outbox holds at most MaxQueued messages and MaxQueuedBytes of keys. If a process does not read
// while more messages are queued, its attachment ends.
package attach
