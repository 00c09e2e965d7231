// Package transport connects the nodes of a cluster. It tracks which peers are connected, and
// carries frames, calls with their answers, and snapshots. It knows nothing about Raft, and
// nothing about quotas except their names.
//
// # Connections
//
// Every node dials every other node twice, so each pair of nodes has four connections:
//
//	a --control--> b   heartbeats, votes, beacons: small, never behind bulk
//	a --data-----> b   log entries, reports, grants, forwarded calls
//	b --control--> a
//	b --data-----> a
//
// The node that dials sends the requests; answers return on the connection of the request. A
// snapshot uses a third, short-lived connection, so that a gigabyte of snapshot delays nothing
// else.
//
// # Frames
//
// A frame is a 4-byte big-endian length followed by that many bytes of peerv1.Frame, at most
// [MaxFrame]. The first frame in each direction is a peerv1.Hello instead. The accepting side
// checks it (protocol, cluster, target, sender, number of ranges) and reports a mismatch in one
// sentence that names both values. The dialing side logs that sentence once and retries slowly.
//
// # Queues
//
// [Net.Send] and [Net.Ask] never block: frames wait in a queue that is bounded by frames and bytes,
// and both return [ErrBusy] when it is full. One goroutine per connection writes, and
// flushes when the queue is empty: frames that arrive together leave together, and a single frame
// leaves at once. All requests of one [Net.Ask] leave in one write, and so do the answers, on a
// control connection, to requests that were read together.
//
// # Up, Down, Refused, Dead, Removed
//
// A peer is Up when both connections to it are established. It is Down when one is lost for an
// unknown reason: the peer may be alive. It is Refused when, in addition, the address where it
// was last connected refuses a new connection. Its process has then probably ended, so elections
// may begin. But a proxy, a port forwarder or a firewall in front of a live process refuses in
// the same way, so nothing that the peer holds may be given to others. It is Dead when its end is
// certain: a new incarnation of its process answers, or the peer announced its end itself
// ([Net.MarkDead]). Neither timeouts nor refusals make a peer Dead.
//
// # The peer set
//
// The peers, at most [MaxPeers], can change at run time ([Net.SetPeers]). A node that is not in
// the peer set is refused with a sentence. This happens briefly whenever a node joins: it retries
// at least once a second, and immediately when the node that refused it dials it. A removed peer
// causes one last event, Removed. A peer that moved is dialed at its new address only after a
// connection to the old one is lost. A refusal at an address where the peer has never been
// connected does not make it Refused.
//
// # Feature levels
//
// A Hello carries its sender's feature level, a number that grows with releases. A node whose
// level is below the cluster's is refused by every node that it connects to or that dials it. The
// protocol version stays 1: it changes only when the frames themselves do.
//
// # TLS
//
// With [Config].TLS every connection uses TLS 1.3, and both sides show a certificate. The
// accepting side compares it with the sender in the Hello, the dialing side with the node that it
// dialed. The configurations are fetched in every handshake and sessions are never resumed, so
// certificates and CAs can be renewed without a restart. An established connection may stay even
// if its certificate expires or its CA is no longer trusted; SetPeers ends it. Invalid
// connections are closed and logged with the reason, at most three lines of each kind in ten
// seconds. Without TLS, anybody who reaches the port can claim to be a peer.
//
// # Unauthenticated connections
//
// An accepted connection is unauthenticated until its handshake is done. The handshake may take
// five seconds in all, two to the first byte. At most 256 connections may be unauthenticated, and
// a new one is always accepted. If there is no room, the source (an address, or a /64 of IPv6)
// with the most connections loses its oldest one that has sent nothing, or else its oldest. Peers
// speak at once, so they get through while thousands of connections stay silent.
//
// # Not in this package
//
// Certificates and their issuers: the caller's functions provide them. Ordering across
// connections: there is no such guarantee. Within one connection, frames arrive in the order in
// which they were sent, or not at all.
package transport
