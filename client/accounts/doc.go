// Package accounts manages durable quotas, such as ten builds a day for every user, in a Quorate
// cluster: balances that are exact, survive failures, and are never charged twice.
//
//	import quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
//
//	c, err := client.New(ctx, []string{"127.0.0.1:7412", "127.0.0.1:7422", "127.0.0.1:7432"})
//	...
//	app := accounts.Register(c, "builds", accounts.Options{ResourceTypes: []string{"builds"}})
//	config, err := app.LoadPoliciesAuto(ctx, "project:infra", &quoratev1.PolicyConfig{Policies: []*quoratev1.PolicyEntry{{
//		Key:    &quoratev1.PolicyKey{Name: "per_user", ResourceType: "builds"},
//		Policy: &quoratev1.Policy{Default: 10, Limit: 10, Refill: &quoratev1.Refill{Units: 10, Interval: 24 * 60 * 60}},
//	}}})
//	...
//	_, err = app.ApplyOps(ctx, "build-8137", 0, []*quoratev1.Op{{
//		AccountId: app.AccountID("project:infra", "", "alice", "builds"),
//		PolicyId:  app.PolicyID(config, "", "per_user", "builds"),
//		Delta:     -1,
//	}})
//	var refused *accounts.ApplyError
//	switch {
//	case errors.As(err, &refused): // the quota is used up
//	case err != nil: // no node answered, or the call is invalid
//	}
//
// A whole program is in examples/builds.
//
// An [Application] is safe for concurrent use. It checks no permissions: the application must do so
// before.
//
// # Retries
//
// A call goes to one node, and further calls stay with it as long as it answers; any node accepts
// any call. If the node cannot be reached, does not answer, or has no leader to forward the call
// to, the call goes to the next node, and after all of them starts again after a pause: at first 25
// to 50 ms, then twice as long each time, up to 500 ms to 1 s. This continues until the call's
// context ends, or for [DefaultTimeout] if it has no deadline.
//
// This applies to calls that are safe to repeat: [Application.ApplyOps] with a request ID,
// LoadPolicies and GetAccounts. ApplyOps without a request ID is sent once, to a connected node. If
// it is not answered, it may or may not have been applied. Conflicts with other operations
// (ABORTED) were not applied, and are always retried.
//
// # Errors
//
// A failed operation returns an [*ApplyError] with the results of all. Every other error is an
// [*Error]; distinguish them with errors.Is: client.ErrInvalid, client.ErrUnavailable,
// client.ErrClosed, [ErrMismatch], [ErrContended] and [ErrFull]. context.DeadlineExceeded and
// context.Canceled match if the context ended.
package accounts
