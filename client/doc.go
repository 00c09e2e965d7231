// Package client decides in the calling process whether requests may pass. A Quorate cluster
// manages the limits; decisions are made in memory.
//
//	c, err := client.New(ctx, []string{"127.0.0.1:7412", "127.0.0.1:7422"})
//	...
//	defer c.Close()
//	<-c.Ready() // until a node has sent its limits, requests pass, unless WithFailClosed is set
//	res, err := c.Allow(ctx, "web", "per_client", "203.0.113.7", 1)
//	switch {
//	case err != nil: // no decision: admit or refuse, as you choose
//	case !res.Allowed: // refuse; retry after res.RetryAfter
//	}
//
// # In process
//
// The process is a member one level below its node: it reports to the node and receives grants from
// it, as a node does with the leaders of ranges. One stream to one node carries the reports and
// grants; one goroutine drives it. Decisions need no call, with these exceptions:
//
//   - hard limits, and soft buckets with few tokens for each node (decide: auto, the default), ask a node if
//     the process holds too little and the cluster may have more: one call, for the first use of a key under
//     hard, and while tokens are short;
//   - a decision about a soft limit that the next grant would settle waits for that grant, for at most 20 ms
//     ([WithGrantWait]), as nodes do, unless the limit says decide: local;
//   - a node decides limits with decide: leader, reservations of future tokens (max_debt), concurrency limits
//     ([Bucket.Acquire]), and reservations that outlive the process ([Client.Reserve]), each in a call;
//   - [Bucket.Wait] waits.
//
// [Bucket] is for hot paths: a decision from held tokens is one atomic subtraction. In [Remote]
// mode every check is a call to a node; the interface is the same ([Limiter]).
//
// # Without a node
//
// [New] does not wait. Until a node has sent its limits, decisions follow [WithDefaults]: buckets
// of this process alone, or refusal. If no default applies, requests pass, or are refused with
// [WithFailClosed]. During this phase, Result.Mode is [ModeFallback], and no node receives a report
// of admitted requests. [Client.Ready] signals the end of the phase.
//
// When the stream breaks, the client attaches to another node at once, chosen at random so that the
// clients of a dead node spread over the others. Until that node has granted tokens, checks of hard
// limits ask a node. Without any node, every key is decided from held tokens and, after its lease,
// by the limit's when_cut_off ([ModeCutOff]). The client retries with exponential backoff of at most
// 5 s and full jitter. It leaves a node that has not answered its reports for a second.
//
// Calls to nodes are behind a circuit breaker: after five consecutive unanswered calls, further
// calls fail at once until a probe is answered ([WithBreaker]). Limits that a node decides then
// follow their when_cut_off; in Remote mode WithDefaults applies, or else the call returns an error.
//
// # What is counted
//
// Counters are cumulative within a session, and messages are numbered, so lost or repeated
// messages change nothing in the end. When a stream breaks, the process sends its last report to
// the next node, which forwards it to the old node or, if the old node is dead, books the counts
// that it had not acknowledged. So admissions are booked once, except if
//
//   - the process dies: the counts since its last report, about a tenth of a second, are lost, and the tokens
//     that it held of hard limits count as used;
//   - a node dies after booking a report and before answering it: the report may be booked twice. Callers are then
//     refused a little early, never admitted too often;
//   - more than 32,768 keys were open on a stream that broke: those with the fewest unacknowledged tokens are
//     dropped. Stats.Dropped counts them;
//   - no node could be reached within the time of [Client.Close].
//
// [Client.Close] sends the last counts to the node and waits for their acknowledgement.
//
// # Calls to nodes
//
// Calls go to the node that the process is attached to; in Remote mode, to the first address and
// later to the node that answered last. If that node does not answer, the call goes to the next
// one: each call asks every node at most once. A call returns within its deadline,
// [DefaultTimeout] if the context has none. A check may be charged at two nodes if the first fails
// after receiving the call and before answering it. A reservation or acquired places whose answer is
// lost are given back as soon as the node notices that the call has ended, at the latest when their
// ttl ends. The client keeps the nodes given to New and those that the node lists to which it attached
// last; it forgets others.
//
// # Errors
//
// A refusal is not an error. Every error is an [*Error]; distinguish them with errors.Is:
//
//   - [ErrInvalid] and [ErrNoLimit] are mistakes in the call or the limit file, and permanent;
//   - [ErrUnavailable] means that no node answered; [ErrDenied] matches it and means that the
//     process lacks a credential or a permission;
//   - [ErrNoReservation] means that the reservation has ended;
//   - [ErrClosed] means that the client was closed;
//   - Wait also returns [ErrTooLong], [ErrNever] and [ErrTooManyWaiting];
//   - context.DeadlineExceeded and context.Canceled match if the context ended.
//
// # Logging
//
// The client logs problems that decisions do not show ([WithLogger]), once a minute: no node
// answers, a limit does not exist, a limit is used in the wrong way. It also reports each unknown
// name to its node every five seconds, one call at a time; the node counts these in
// quorate_no_limit_total.
//
// # Bounds
//
// The client bounds its keys (100,000, [WithMaxKeys]); keys of its own limits (10,000); callers in
// Wait (1000, [WithMaxWaiting]) and callers that wait for a grant (1024, further ones are decided
// at once), half of each at most for one key; nodes (100); queued messages (64, others are reported
// again); broken streams that are not settled yet (16); and unknown limit names (100). It has one
// goroutine, two more while attached, and one while it reports an unknown name to a node.
//
// # Concurrency
//
// A [Client] is safe for concurrent use and meant to be shared: create one per process. It keeps
// one connection to each node that it has asked.
package client
