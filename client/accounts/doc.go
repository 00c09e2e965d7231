// Package accounts keeps durable quotas, such as ten builds a day for every user,
// on a Quorate cluster: balances that are exact, survive failures, and are never
// charged twice.
//
//	c, err := client.New(ctx, []string{"127.0.0.1:7412", "127.0.0.1:7422", "127.0.0.1:7432"})
//	...
//	app := accounts.Register(c, "builds", accounts.Options{ResourceTypes: []string{"builds"}})
//	config, err := app.LoadPoliciesAuto(ctx, "project:infra", &quoratev1.PolicyConfig{...})
//	...
//	_, err = app.ApplyOps(ctx, "build-8137", 0, []*quoratev1.Op{{
//		AccountId: app.AccountID("project:infra", "", "alice", "builds"),
//		PolicyId:  app.PolicyID(config, "", "per_user", "builds"),
//		Delta:     -1,
//	}})
//	var refused *accounts.ApplyError
//	switch {
//	case errors.As(err, &refused): // the quota is used up
//	case err != nil: // nobody answered, or the call is wrong
//	}
//
// An [Application] is safe for concurrent use. It checks no permissions: your
// application has done that before it asks.
//
// # Which calls are repeated
//
// A call goes to one node, and stays with it as long as it answers; any node takes
// any call. When it cannot be reached, does not answer, or has no leader to pass
// the call to, the call goes to the next node, and after all of them begins anew
// behind a pause: 25 to 50 ms at first, twice as long each time, 500 ms to 1 s in
// the end. That goes on until the call's context ends, or for [DefaultTimeout] if
// it has no deadline.
//
// So it is with calls that are safe to repeat: [Application.ApplyOps] with a
// request id, LoadPolicies and GetAccounts. ApplyOps without a request id is sent
// to one node that is connected, once. If it is not answered it may have been
// applied or not, and nobody can tell. What others have prevented (ABORTED) was
// not applied, and is repeated in any case.
//
// # Errors
//
// An operation that fails makes an [*ApplyError] with the results of all. Every
// other error is an [*Error], to be told apart with errors.Is: client.ErrInvalid,
// client.ErrUnavailable, client.ErrClosed, [ErrMismatch], [ErrContended] and
// [ErrFull]. context.DeadlineExceeded and context.Canceled match when the context
// ended.
package accounts
