package sharedlog

import (
	"os"
	"sync"
	"testing"
)

// BenchmarkGroups appends one batch after the other in each group, all groups at once. Commits per
// batch count work: they hold on any disk.
func BenchmarkGroups(b *testing.B) {
	for name, groups := range map[string]int{"1": 1, "8": 8, "64": 64} {
		b.Run("groups="+name, func(b *testing.B) {
			l := openTest(b, b.TempDir(), nil)
			var wg sync.WaitGroup
			for n := range groups {
				g := group(b, l, uint32(n))
				wg.Go(func() {
					for i := uint64(1); i <= uint64(b.N/groups+1); i++ {
						if err := g.StoreLogs(entries(4*i-3, 4*i, 600)); err != nil {
							b.Error(err)
							return
						}
						if i%200 == 0 { // as after a snapshot
							first, _ := g.FirstIndex()
							if err := g.DeleteRange(first, 4*i-400); err != nil {
								b.Error(err)
								return
							}
						}
					}
				})
			}
			wg.Wait()
			s := l.Stats()
			b.ReportMetric(float64(s.Commits)/float64(s.Calls), "commits/batch")
			if info, err := os.Stat(l.path); err == nil {
				b.ReportMetric(float64(info.Size())/(1<<20), "MiB")
			}
			b.ReportMetric(float64(s.Calls)/b.Elapsed().Seconds(), "batches/s")
		})
	}
}
