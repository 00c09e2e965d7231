// Package dataplane decides checks on a node: from the node's own memory, or by asking the leader of
// the key's range.
//
// # The way of a check
//
// Check, CheckHeld and Decide (check.go) ask the aggregator, on the caller's goroutine. Where the
// leader's next grant would tell, and this node does not know, the call waits for that grant; where the
// limit says so, it asks the leader (leader.go): the ledger of this node's own replica, or another
// node, which gets what many callers ask in one message. Reservations (reserve.go) are checks that
// are settled later.
//
// # The way of a report
//
// The member loop (member.go) is the only goroutine that drives the aggregator: it collects reports,
// books those to ranges that this node leads in their replicas (package replica), sends the others, and
// applies the grants that come. Everybody else puts work into its bounded inbox.
//
// # Bounds
//
// The inbox has 4096 places; a grant that finds it full is dropped, and the member asks again. Checks
// that wait for a grant (at most Config.GrantWait): 1024; more do not wait. Decide requests that wait for
// the leader of a range: 4096, half of them about one key. Reservations: 1,000,000, a quarter of them of one owner.
package dataplane
