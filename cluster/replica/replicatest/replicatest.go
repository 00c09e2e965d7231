// Package replicatest helps tests of replicas.
package replicatest

import (
	"testing"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// Replica is the part of replica.Replica that Occupy needs.
type Replica interface {
	With(f func(l *leader.Ledger, now quota.Time)) bool
}

// Occupy locks the ledger of a range, which this node must lead, until free is called or the test
// ends. Sweep does the same for part of a second when there are many keys.
func Occupy(t testing.TB, r Replica) (free func()) {
	t.Helper()
	has, end := make(chan struct{}), make(chan struct{})
	over := make(chan bool)
	go func() {
		over <- r.With(func(*leader.Ledger, quota.Time) {
			close(has)
			<-end
		})
	}()
	select {
	case <-has:
	case <-over:
		t.Fatal("the node does not lead the range")
	}
	free = func() {
		select {
		case <-end:
		default:
			close(end)
			<-over
		}
	}
	t.Cleanup(free)
	return free
}
