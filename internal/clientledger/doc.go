// Package clientledger is the ledger of a node's own clients. One level below the leaders, a node
// is to its client processes what the leader of a range is to its nodes.
//
// The package is pure: the caller passes the time, carries the messages, and uses a Ledger from one
// goroutine at a time. The messages are those between nodes and leaders (quota.Report,
// quota.Grant). A client is an aggregator.Aggregator with one range, whose leader is the node and
// whose term is the number of its session.
//
// # Allocations
//
// Tokens for clients are taken from those that the node itself holds (aggregator.Allocate).
// Allocated tokens count as held by the node until a client reports their use. The use, the
// overdrafts and the refusals of clients are added to the node's own (aggregator.Settle). So
// leaders see as many members as there are nodes, whatever the number of clients. Hard limits are
// exact for the same reason as among nodes (leader/doc.go), because after every step
//
//	sum of the allocations of a key = tokens that the table has allocated of it
//
// and a token is allocated once.
//
// Clients get whole tokens and no rates; the node refills. A client that uses 20/s holds a few
// tokens, one that uses 1/s asks for each. Under soft it overdraws on the level in the grant: Level
// is reduced by what the callers of other clients are about to overdraw; Unseen includes the tokens
// of other clients; Others is the demand of the rest of the cluster. Under hard a client spends only
// its tokens. Its lease is never longer than the node's.
//
// The node promises each client how much it may overdraw until its next grant (Credit), out of what
// is neither allocated nor promised to others. Little of what is promised to others is allocated.
//
// # Division
//
// While the node has enough, every client gets its expected need for the next one and a half
// intervals, and what its callers wait for. Otherwise it gets its max-min fair share by demand, and
// tokens go to the client that has waited longest, one request at a time (Push). When a client is
// short, or a leader recalls what the node holds, the node asks clients to report and to return what
// they do not need.
//
// # Windows, tiers, parents
//
// Each tier, floor and parent is a counter of its own, as between nodes. The bounds of a window are
// on the node's clock. Its name is its start on the leader's clock as long as the two clocks agree
// within two seconds, so that a client that starts the next window by itself uses the same name.
// When the node's window ends, or the node has opened the key again, all allocations of the key
// are void (aggregator.Generation). The next report contains the use of them, and it is charged to
// the window that it belongs to.
//
// Limits with decide: leader, limits that reserve future tokens, and concurrency limits
// have no allocations: their calls go to the node.
//
// # Streams that break
//
// Counters are cumulative within an epoch (an opening of a key) of a session. The incarnation,
// session and sequence number make reports idempotent. A process has one session at a time. When its
// stream breaks, the process ends the session (aggregator.Leave): it returns what it held, makes a
// last report with all counters, counts from 0 again, and attaches to a node. The last report reaches
// this ledger directly or through the other node (Final), and settles the session. The ledger
// remembers that, so repetitions change nothing: whatever was lost in transit, the node has booked
// exactly the sum of its clients' counts.
//
// Until the last report arrives, the session's tokens stay allocated. When their lease ends, they
// return under soft. Under hard they count as used, because the client may have used them; if its
// report arrives later, the unused ones are refunded, as far as the bucket has not refilled since. A session
// that is not settled within a minute is forgotten.
//
// If the node itself dies, the nodes that its clients attach to next book what it had not
// acknowledged (Inherit). The tokens that it had allocated count as spent, like all that it held. So
// under hard they book overdrafts only.
//
// # Limits of trust
//
// A client cannot have used more than it was allocated in an epoch; use that it reports beyond that
// is not booked. It wants at most a burst. Overdrafts, and use after the lease, are booked only up
// to a bound: the limit's OwedUnits and the refill while the client was silent, once for each node,
// once for each client of the key if all nodes have as many as this one, and four times more. So a
// client that lies can deny others one bucket, for as long as that many bursts take to refill. A
// session to this node that never existed is not settled.
//
// Ended sessions (Bounds) have no bound for one owner, because the last report that another node relays
// does not name the owner. A process may settle sessions that never existed to nodes that are no members. So one
// owner can push out those of others with 65,536 short messages. If the last report of another session
// arrives after that, what the session had not reported before is booked once more (if its node is dead and the
// first answer was lost) or not at all (if this node had forgotten it). That is mostly the use of
// one sync interval, and under hard overdrafts only: allocated tokens count as used.
//
// # Cut off
//
// While the node hears nothing from a key's leader, it serves its clients by the limit's
// when_cut_off. It allocates what the policy lets the node admit (Allocation.Unbacked) and books it
// as overdrawn when it is used; clients receive the level of the policy. Clients follow
// when_cut_off themselves only when they are cut off from the node.
//
// # Bounds
//
// MaxClients attached clients, and as many broken sessions; MaxKeys keys of clients; of broken sessions
// and of keys, one owner has at most seven for each free place (fairshare.PerFree); 4096 entries in a
// report; 8 unacknowledged grants of tokens for each client and key; 4096 grants that wait to be pushed;
// 65,536 settled sessions, as many forgotten ones, and as many booked parts of last reports, each for an
// hour. The work for a report does not depend on the number of clients, except for the division, which
// reads all clients of a key four times an interval.
package clientledger
