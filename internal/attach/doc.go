// Package attach is what a node and the server of MemberService say to each other:
// a client process attaches, reports, settles, and is sent what the node has for it.
//
// A [Host] is a node. The server makes an [Outbox] for each attachment, and sends what
// the host puts there; the [Session] that it gets takes what the process sends.
// Everything that goes into one has been checked: see peerproto.ParseReport.
//
// # Bounds
//
// An outbox holds MaxQueued messages and MaxQueuedBytes of keys; a process that takes
// nothing while more comes loses its attachment.
package attach
