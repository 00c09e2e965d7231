//go:build unix

package sim

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// BenchmarkRun plays one key at three times its limit of 1000/s for ten seconds.
func BenchmarkRun(b *testing.B) {
	for _, nodes := range []int{3, 10, 200} {
		for _, c := range []quota.Ceiling{quota.Soft, quota.Hard} {
			b.Run(fmt.Sprintf("%d_nodes_%v", nodes, c), func(b *testing.B) {
				b.ReportAllocs()
				var seconds float64
				from := cpu()
				for b.Loop() {
					s := Scenario{
						Seed: 1, Nodes: nodes, Duration: 10 * time.Second, Limit: limit(1000, 1000, c),
						Delay: time.Millisecond, Load: patterns[2].on(nodes, 1000),
					}
					Run(s)
					seconds += float64(nodes) * s.Duration.Seconds()
				}
				b.ReportMetric(seconds/b.Elapsed().Seconds(), "node-s/s")
				b.ReportMetric(seconds/(cpu()-from), "node-s/cpu-s")
			})
		}
	}
}

// cpu returns the CPU seconds that the process has used so far. On a shared machine they say more
// than elapsed time.
func cpu() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
