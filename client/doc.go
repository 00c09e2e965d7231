// Package client asks a Quorate node whether a request may pass.
//
//	c, err := client.New(ctx, []string{"127.0.0.1:7412", "127.0.0.1:7422"})
//	...
//	defer c.Close()
//	res, err := c.Allow(ctx, "web", "per_client", "203.0.113.7", 1)
//	switch {
//	case err != nil: // nobody answered: let it pass, or not; your decision
//	case !res.Allowed: // refuse; res.RetryAfter says when to come back
//	}
//
// # What a call costs
//
// A call is one gRPC round trip to a node, which decides from its own memory and
// asks nobody. The nodes together keep the limit, so it does not matter which
// one is asked. Put a node beside the service and the round trip stays on the
// machine. A client that decides inside the process will have the same
// interface, [Limiter].
//
// # Guarantee
//
// A call returns within its deadline, [DefaultTimeout] if the context has none,
// whatever the nodes do. It never decides by itself: without an answer it
// returns an error, and the caller says whether to fail open or closed.
//
// A check is charged at most once per node that was asked. Only when a node
// breaks down after taking the call and before answering may a check be charged
// there and again at the next node: the caller may then be refused a little
// early, never admitted too often.
//
// # Several nodes
//
// The client asks one node, the first in the list to begin with, and stays with
// it as long as it answers. When it cannot be reached or does not answer, the
// same call goes to the next node at once, and the client stays there. Every
// node is asked at most once in a call. A node that hangs, rather than refusing
// connections, costs that call part of its time: the time left is shared out
// among the nodes not asked yet.
//
// # Errors
//
// A refusal is not an error. Every error is an [*Error], to be told apart with
// errors.Is: [ErrInvalid] and [ErrNoLimit] are mistakes in the call or the limit
// file and will not go away by themselves; [ErrUnavailable] means that no node
// answered; [ErrClosed] that the client was closed. context.DeadlineExceeded and
// context.Canceled match when the context ended.
//
// # Concurrency
//
// A [Client] is safe for concurrent use and is meant to be shared: make one per
// process. It holds one connection per node that it has asked.
package client
