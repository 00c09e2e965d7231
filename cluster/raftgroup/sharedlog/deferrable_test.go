package sharedlog

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// deferrably appends a deferrable entry.
func deferrably(t testing.TB, g *Group, index uint64) {
	t.Helper()
	if err := g.StoreLog(&raft.Log{Index: index, Term: 1, Data: []byte("p"), Extensions: []byte(Deferrable)}); err != nil {
		t.Error(err)
	}
}

// TestDeferrableCallsShareCommits checks that calls that no caller waits for share a transaction though they do not come at
// the same moment, and that they delay nobody else.
func TestDeferrableCallsShareCommits(t *testing.T) {
	for name, c := range map[string]struct {
		then    func(l *Log) // when the deferrable calls are there
		commits uint64
		lasts   time.Duration
	}{
		"nothing else comes":   {func(*Log) {}, 1, coalesceFor},
		"an append comes":      {func(l *Log) { must(t, group(t, l, 9).StoreLogs(entries(1, 2, 10))) }, 1, coalesceFor / 2},
		"a vote comes":         {func(l *Log) { must(t, group(t, l, 9).SetUint64([]byte("CurrentTerm"), 7)) }, 1, coalesceFor / 2},
		"a deletion comes":     {func(l *Log) { must(t, group(t, l, 9).DeleteRange(1, 2)) }, 1, coalesceFor / 2},
		"an urgent call comes": {(*Log).EndCoalescing, 1, coalesceFor / 2},
		"the log is closed":    {func(l *Log) { must(t, l.Close()) }, 1, coalesceFor / 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				l := openTest(t, dir, nil)
				began := time.Now()
				var calls sync.WaitGroup
				for id := range uint32(3) {
					calls.Go(func() {
						time.Sleep(time.Duration(id) * coalesceFor / 4)
						deferrably(t, group(t, l, id), 1)
					})
				}
				time.Sleep(coalesceFor / 2)
				synctest.Wait()
				c.then(l)
				calls.Wait()
				if took := time.Since(began); took != c.lasts {
					t.Errorf("took %v, want %v", took, c.lasts)
				}
				if s := l.Stats(); s.Commits != c.commits || s.Calls < 3 {
					t.Errorf("%d calls took %d transactions, want %d", s.Calls, s.Commits, c.commits)
				}
				must(t, l.Close())
			})
		})
	}
}
