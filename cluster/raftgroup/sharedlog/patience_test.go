package sharedlog

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// patiently appends an entry that nobody waits for.
func patiently(t testing.TB, g *Group, index uint64) {
	t.Helper()
	if err := g.StoreLog(&raft.Log{Index: index, Term: 1, Data: []byte("p"), Extensions: []byte(Patient)}); err != nil {
		t.Error(err)
	}
}

// TestPatientCallsShareCommits checks that calls which nobody waits for share a transaction though they do not come at
// the same moment, and that they delay nobody else.
func TestPatientCallsShareCommits(t *testing.T) {
	for name, c := range map[string]struct {
		then    func(l *Log) // when the patient calls are there
		commits uint64
		lasts   time.Duration
	}{
		"nothing else comes":   {func(*Log) {}, 1, patience},
		"an append comes":      {func(l *Log) { must(t, group(t, l, 9).StoreLogs(entries(1, 2, 10))) }, 1, patience / 2},
		"a vote comes":         {func(l *Log) { must(t, group(t, l, 9).SetUint64([]byte("CurrentTerm"), 7)) }, 1, patience / 2},
		"a deletion comes":     {func(l *Log) { must(t, group(t, l, 9).DeleteRange(1, 2)) }, 1, patience / 2},
		"somebody is in haste": {(*Log).Hurry, 1, patience / 2},
		"the log is closed":    {func(l *Log) { must(t, l.Close()) }, 1, patience / 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				l := openTest(t, dir, nil)
				began := time.Now()
				var calls sync.WaitGroup
				for id := range uint32(3) {
					calls.Go(func() {
						time.Sleep(time.Duration(id) * patience / 4)
						patiently(t, group(t, l, id), 1)
					})
				}
				time.Sleep(patience / 2)
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
