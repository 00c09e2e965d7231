package cluster

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// BenchmarkHardKeysInUse counts what 10,000 hard keys write that are asked for 2000 times a second, each in turns at three
// nodes. An iteration is a second. It begins to count after five of them.
func BenchmarkHardKeysInUse(b *testing.B) {
	c := newThreeNodes(b, 64, func(cfg *Config) {
		cfg.GrantWait, cfg.AskWait, cfg.MaxKeys = 20*time.Millisecond, DefaultAskWait, 1_000_000
	})
	l := quota.Limit{LimitName: quota.LimitName{Namespace: "a", Limit: "hard"}, Rate: quota.Rate{Tokens: 1000, Per: time.Hour}, Burst: 1000, Ceiling: quota.Hard}
	c.apply(l)
	nodes, rng := c.running(), rand.New(rand.NewPCG(1, 2))
	var refused, done int
	var mu sync.Mutex
	second := func() {
		var calls sync.WaitGroup
		start := time.Now()
		for n := 0; time.Since(start) < time.Second; time.Sleep(5 * time.Millisecond) {
			for ; n < int(time.Since(start).Seconds()*2000); n++ {
				node, k := nodes[rng.IntN(len(nodes))], quota.Key{LimitName: l.LimitName, Key: strconv.Itoa(rng.IntN(10_000))}
				calls.Go(func() {
					d := node.Check(k, 1)
					mu.Lock()
					defer mu.Unlock()
					if done++; !d.Allowed {
						refused++
					}
				})
			}
		}
		calls.Wait()
	}
	count := func() (commits, asked float64) {
		for _, n := range nodes {
			commits += float64(n.host.LogStats().Commits)
			asked += counted(b, n, "quorate_leader_decide_requests_total")
		}
		return commits, asked
	}
	for range 5 {
		second()
	}
	refused, done = 0, 0
	commits, asked := count()
	b.ResetTimer()
	for range b.N {
		second()
	}
	b.StopTimer()
	after, askedAfter := count()
	b.ReportMetric((after-commits)/b.Elapsed().Seconds()/float64(len(nodes)), "transactions/node/s")
	b.ReportMetric((askedAfter-asked)/b.Elapsed().Seconds(), "asked/s")
	b.ReportMetric(100*float64(refused)/float64(max(done, 1)), "%refused")
}
