// Package dataplane decides checks on a node: from the node's own memory, or by asking the leader of
// the key's range.
//
// # Path of a check
//
// Check, CheckHeld and Decide (check.go) call the aggregator on the caller's goroutine. If the decision
// depends on the leader's next grant, the call waits for that grant. If the limit requires it, the call
// asks the leader (leader.go): either the ledger of this node's own replica or another node, with
// concurrent requests batched into one message. A reservation (reserve.go) is a check that is settled
// later.
//
// # Path of a report
//
// The member loop (member.go) is the only goroutine that drives the aggregator. It collects reports and
// applies grants. It books reports to ranges that this node leads in their replicas (package replica),
// and sends the others. All other goroutines queue work in its bounded inbox.
//
// # Bounds
//
// The inbox holds 4096 entries. A full inbox drops grants, and the member asks again. At most 1024 checks
// wait for a grant, each for at most Config.GrantWait, or half of Config.AskWait for the first grant of a
// hard key; further checks do not wait. At most 32768 Decide requests wait for the leader of a range, half
// of them about one key. A node holds at most 1,000,000 reservations, a quarter of them of one owner.
package dataplane
