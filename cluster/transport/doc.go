// Package transport is the links between the nodes of a cluster: who is connected,
// frames to them, calls and their answers, and snapshots. It knows nothing of
// Raft and nothing of quotas beyond their names.
//
// # Connections
//
// Every node dials every other node twice, so a pair of nodes has four
// connections:
//
//	a --control--> b   heartbeats, votes, beacons: small, never behind bulk
//	a --data-----> b   log entries, reports, grants, forwarded calls
//	b --control--> a
//	b --data-----> a
//
// Whoever dials, asks; answers come back on the connection of the request.
// A snapshot takes a third, short-lived connection, so that a gigabyte of it
// delays nothing else.
//
// # Frames
//
// A frame is a 4-byte big-endian length and that many bytes of
// peerv1.Frame, at most [MaxFrame]. The first frame each way is a peerv1.Hello
// instead. The one who accepted checks it (protocol, cluster, target, sender,
// number of ranges) and says in one sentence what does not fit, naming both
// values; the one who dialed logs that sentence once and tries again slowly.
//
// # Queues
//
// Send and Call never block on the network: frames wait in a queue bounded by
// frames and bytes, and the caller is told [ErrBusy] when it is full. One
// goroutine per connection writes, and flushes when the queue is empty: frames
// that come together leave together, and a lone frame leaves at once. What is
// asked in one [Net.Ask] is one write, and so are the answers on a control
// connection to what was read at a time.
//
// # Up, Down, Refused, Dead, Removed
//
// A peer is Up when both connections to it stand. It is Down when one is lost
// and nobody knows why: the peer may well live. It is Refused when in addition a new
// connection is refused at the address where it was: probably its process has
// ended, so elections may begin, but a proxy, a port forwarder or a firewall before
// a living process refuses in the same way, so nothing that it holds may be given
// to others. It is Dead when that is definite: a new incarnation of its process answers,
// or the peer said so itself ([Net.MarkDead]). Neither timeouts nor refusals make a
// peer Dead.
//
// # The peer set
//
// Who the peers are, at most [MaxPeers], changes at run time ([Net.SetPeers]).
// A node that is not in the peer set is refused with a sentence. For a moment that
// is so whenever a node joins: it tries again at least once a second, and at
// once when it is dialed by the one that refused it. A peer that is removed gets
// one last Removed. A peer that moved is dialed at its new address only when a
// connection to the old one is lost; that nobody listens at an address where it
// has never been connected does not make it Refused.
//
// # Feature levels
//
// A Hello says what its sender can do, as one number that grows with releases. A node
// that can do less than the cluster's level is refused, by whoever sees it. The protocol's
// version stays 1: it changes only when frames themselves do.
//
// # TLS
//
// With [Config].TLS every connection is TLS 1.3, and both sides show a
// certificate: the one who accepts holds it against the Hello's sender, the one
// who dials against the node it meant. Configurations are asked for in every
// handshake and sessions are never resumed, so certificates and CAs are renewed
// without a restart. A connection whose certificate has expired since, or whose
// CA is no longer trusted, may stay as long as it stands; SetPeers ends it. What
// does not hold is closed, and logged with the reason, three lines in ten seconds
// of each kind. Without TLS whoever reaches the port may say to be a peer.
//
// # Unauthenticated connections
//
// An accepted connection is unauthenticated until its handshake is done: five seconds
// in all, two to the first byte. There is room for 256, and the newest is always
// let in: of the source that has most (an address, a /64 of IPv6) the
// oldest goes that has said nothing, or else the oldest. So peers, who speak at
// once, get through while thousands of connections say nothing.
//
// # What is not here
//
// Certificates and who signs them: the caller's functions bring them. Ordering
// across connections: none is promised; within one connection frames arrive in
// the order in which they were sent, or not at all.
package transport
