// Package clientledger is the ledger of a node's own clients: one level below, a node is
// to its client processes what the leader of a range is to its nodes.
//
// It is pure: the caller passes the time, carries the messages, and lets one
// goroutine at a time in. Messages are those between nodes and leaders
// (quota.Report, quota.Grant), and a client is an aggregator.Aggregator with one
// range, whose leader is the node and whose term is the number of its session.
//
// # What is allocated
//
// Tokens come out of what the node itself holds (aggregator.Allocate). What is allocated
// counts as held by the node until a client says what became of it, and what clients
// used, overdrew and were refused is the node's own (aggregator.Settle). So leaders
// see as many members as there are nodes, whatever the number of clients; and what
// makes hard exact among nodes (leader/doc.go) makes it exact here, because
//
//	the sum of what allocations have allocated = what the table has allocated, per key
//
// after every step, and a token is allocated once.
//
// Clients get whole tokens and no rates: what refills does so at the node. A client
// that uses 20/s has a few tokens of its own, one that uses 1/s asks for each.
// Under soft it overdraws on the level in the grant (Level, less what the other clients'
// callers are about to overdraw, and less, as Unseen, what other clients were allocated;
// Others is the demand of everybody else in the cluster), under hard it spends only what
// it was allocated. A client's lease is never longer than the node's.
//
// How much a client may overdraw until it hears again is promised to it (Credit), out of
// what is neither allocated nor promised to others; and what others were promised is not allocated,
// but for a little (little).
//
// # Division
//
// While the node has enough, every client gets what it is foreseen to need, one and
// a half intervals ahead, and what its callers wait for. Else it gets its part, max-min
// fair by demand; and tokens go to the client that has waited longest, a request at a
// time (Push). When a client is short, the others are asked to report and to give back
// what they do not need; and so are clients when a leader recalls what the node holds.
//
// # Windows, tiers, parents
//
// Each tier, floor and parent is a counter of its own, as between nodes. The bounds
// of a window are in the node's clock; it is named by its start on the leader's clock
// as long as the two agree within two seconds, so that a client that turns the window
// by itself finds the same one. When the node's window ends, or it has opened the key
// again, all allocations of it are void (aggregator.Generation): the next report contains
// what was used of them, and it is charged to the window that it belongs to.
//
// Limits that their leader decides, that reserve tokens to come, or that count what is
// in flight are not allocated of: their calls go to the node.
//
// # Streams that break
//
// Counters are cumulative within an epoch (an opening of a key) of a session.
// (incarnation, session, sequence number) make reports idempotent. A process has
// one session at a time. When its stream breaks it ends the session for itself
// (aggregator.Leave): it gives back what it held and makes a last report with all
// counters, begins to count from 0, and attaches somewhere. The last report comes to
// this node with that or through the other node (Final), settles the session, and
// is remembered so that repetitions change nothing. So whatever was lost on the way,
// the sum of what clients counted is the sum of what the node has booked.
//
// Until the last report comes, what was allocated is out. When its lease has ended, under
// soft it comes back; under hard it counts as used, because the client may have used
// it: should its report come later, what was not used is refunded. An session that
// nobody settles within a minute is forgotten.
//
// If the node itself is dead, its clients' next nodes book what it had not acknowledged
// (Inherit). What it had allocated counts as spent then, as all that it held.
//
// # What is believed
//
// A client has used no more than it was allocated in an epoch, and what it says beyond is not
// booked. What it has overdrawn, or used after its lease, is booked as far as it may be
// owed: the limit's OwedUnits, and what refilled while it was silent, once for each
// client of the key and five times besides. So a client that lies takes a bucket from the others
// for as long as it takes to refill some bursts. An session that never was is not settled.
//
// # Cut off
//
// While the node hears nothing from a key's leader, it serves its clients by the
// limit's when_cut_off: it allocates what the policy lets the node admit (Loan.Unbacked),
// and books it as overdrawn when it was used; clients receive the level of the
// policy. Clients follow when_cut_off themselves only when they are cut off from the
// node.
//
// # Bounds
//
// Clients (MaxClients), and as many sessions that broke; keys of clients (MaxKeys, of
// one owner seven for each that is free);
// 4096 entries in a report; 8 unanswered grants of tokens to a client and key; 4096
// grants that wait to be pushed; 65,536 settled sessions are remembered, for an
// hour. Work: a report costs the same however many clients there are, but for the
// division, which looks at all clients of a key four times an interval.
package clientledger
