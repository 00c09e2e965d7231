// Package client decides whether requests may pass, in the process that asks: the
// limits are kept by a Quorate cluster, and the decision is made in memory.
//
//	c, err := client.New(ctx, []string{"127.0.0.1:7412", "127.0.0.1:7422"})
//	...
//	defer c.Close()
//	<-c.Ready() // until a node has told its limits, requests pass, unless WithFailClosed is given
//	res, err := c.Allow(ctx, "web", "per_client", "203.0.113.7", 1)
//	switch {
//	case err != nil: // no decision: let it pass, or not; yours to say
//	case !res.Allowed: // refuse; res.RetryAfter says when to come back
//	}
//
// # In the process
//
// The process is a member one level below its node: the node is to it what the
// leader of a range is to nodes. One stream to one node carries what was counted, and
// what may be spent next; one goroutine drives it. Decisions ask nobody. Three things
// take longer than memory does:
//
//   - a decision that would have to guess while the next grant would tell waits for
//     that, at most 20 ms ([WithGrantWait]), as a node does;
//   - what only a node can decide goes to it in a call: limits with decide: leader,
//     tokens to come (max_debt), what is in flight ([Bucket.Acquire]), and what is to
//     be given back when the process dies ([Client.Reserve]);
//   - [Bucket.Wait] waits, since that is what it is for.
//
// [Bucket] is for hot paths: a decision out of what is held is one atomic
// subtraction. In [Remote] mode every check is a call to a node; the interface is the
// same ([Limiter]).
//
// # Without a node
//
// [New] waits for nobody. Until a node has told its limits, decisions follow
// [WithDefaults]: buckets of this process alone, or refusal. Where no default fits,
// requests pass, or with [WithFailClosed] are refused. Result.Mode says [ModeFallback]
// then, and what passes is reported to nobody. [Client.Ready] says when that is over.
//
// When the stream breaks, another node is attached to at once: chance decides which,
// so that the clients of a node that died spread over the rest. While there is none,
// every key is decided by what it holds, and when its lease is over by the limit's
// when_cut_off ([ModeCutOff]), with exponential pauses and full jitter between
// attempts, 5 s at most. A node that leaves reports unanswered for a second is given
// up.
//
// Calls to nodes are behind a circuit breaker: after five in a row that nobody
// answered, further ones fail at once, until a probe is answered ([WithBreaker]). What
// a node should have decided then follows the limit's when_cut_off; in Remote mode
// WithDefaults counts where it fits, and else there is an error.
//
// # What is counted
//
// Counters are cumulative within an attachment, and messages are numbered, so what is
// lost or repeated changes nothing in the end. When a stream breaks the process brings
// its last report along to the next node, which hands it to the old one, or books what
// that had not acknowledged if it is dead: so what the process admitted is booked
// once. It is not where
//
//   - the process dies: what it counted since its last report, some tenth of a second;
//     what it held of a hard limit counts as used;
//   - a node dies after it has booked a report and before it has answered: that may be
//     booked twice. Callers are refused a little early then, never admitted too often;
//   - more than 32,768 keys were open on a stream that broke: those with the least that
//     is not acknowledged are left out. Stats.Dropped counts them;
//   - no node was to be had within the time of [Client.Close].
//
// [Client.Close] tells the node what was counted last, and waits for it to be heard.
//
// # Calls to nodes
//
// They go to the node that the process is attached to; in Remote mode to the first
// address to begin with, and to the one that answered last from then on. When that
// does not answer, the same call goes to the next: every node is asked at most once in
// a call. A call returns within its deadline, [DefaultTimeout] if the context has none.
// A check may be charged at two nodes if the first breaks down between taking the call
// and answering it.
//
// # Errors
//
// A refusal is not an error. Every error is an [*Error], to be told apart with
// errors.Is: [ErrInvalid] and [ErrNoLimit] are mistakes in the call or the limit
// file and will not go away by themselves; [ErrUnavailable] means that no node
// answered; [ErrNoReservation] that what is to be settled or renewed is over; [ErrClosed]
// that the client was closed; Wait has [ErrTooLong], [ErrNever] and [ErrTooManyWaiting].
// context.DeadlineExceeded and context.Canceled match when the context ended.
//
// # What it says
//
// What is wrong and shows in no decision is logged ([WithLogger]), once a minute: no node
// answers, a limit does not exist, one is asked in the wrong way. Names that do not exist are
// also told to the node, which counts them in quorate_no_limit_total: each every five
// seconds, one call at a time.
//
// # Bounds
//
// Keys (100,000, [WithMaxKeys]); keys of the client's own limits (10,000); callers that
// wait in Wait (1000, [WithMaxWaiting]), and for a grant (1024, more are decided at
// once), one key at most half of each; nodes (100); messages that wait to be sent (64, what does not fit is reported
// again); streams that broke and are not settled yet (16); names of limits that do not
// exist (100). Goroutines: one, two while attached, and one while a node is told such a name.
//
// # Concurrency
//
// A [Client] is safe for concurrent use and is meant to be shared: make one per
// process. It holds one connection per node that it has asked.
package client
