package cluster

import (
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
)

// BenchmarkCheck decides from a node's memory, one key after the other, called as the protocols do.
func BenchmarkCheck(b *testing.B) {
	const keys = 1024
	cfg := Config{
		Cluster: "bench", Self: "n1", Nodes: map[quota.NodeID]string{"n1": "127.0.0.1:0"}, Ranges: 16, Replicas: 1,
		Sync: 100 * time.Millisecond, MaxKeys: 10_000, Idle: time.Minute, Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
	}
	settings := cfg.membership(starts{})
	v, err := membership.SettingsView(&settings)
	if err != nil {
		b.Fatal(err)
	}
	n := newNode(cfg, v, false, nil, starts{inc: 1})
	n.host = &raftgroup.Host{}
	l := limit("l", quota.MaxTokens, quota.Soft)
	setLimits(n, l)
	n.Decider.Start()
	for ; n.Limits().Version == 0; time.Sleep(time.Millisecond) {
	}
	n.Decider.Close() // counts are not reported
	names := make([]quota.Key, keys)
	spends := make([]quota.Spend, keys)
	for i := range names {
		names[i] = quota.Key{LimitName: l.LimitName, Key: fmt.Sprintf("tenant-%017d", i)}
		spends[i] = quota.Spend{Key: names[i].Key, Cost: 1}
	}
	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			n.Check(names[i%keys], 1)
		}
	})
	b.Run("decide", func(b *testing.B) {
		b.ReportAllocs()
		reqs, out := make([]quota.Request, 1), make([]quota.Decision, 1)
		for i := 0; b.Loop(); i++ {
			reqs[0] = quota.Request{Key: names[i%keys], Cost: 1, MaxWait: quota.LimitsWait}
			n.Decide(reqs, out)
		}
	})
	b.Run("two limits", func(b *testing.B) {
		b.ReportAllocs()
		reqs, out := make([]quota.Request, 2), make([]quota.Decision, 2)
		for i := 0; b.Loop(); i++ {
			for j := range reqs {
				reqs[j] = quota.Request{Key: names[(i+j)%keys], Cost: 1, MaxWait: quota.LimitsWait}
			}
			n.Decide(reqs, out)
		}
	})
	b.Run("held 64", func(b *testing.B) {
		b.ReportAllocs()
		out := make([]quota.Decision, 64)
		for i := 0; b.Loop(); i++ {
			from := i * 64 % keys
			n.CheckHeld(l.LimitName, spends[from:from+64], out)
		}
	})
}

// BenchmarkDecideLeader decides limits with decide: leader, at the node that leads all keys and at another one.
func BenchmarkDecideLeader(b *testing.B) {
	c := newThreeNodes(b, 4, func(cfg *Config) { cfg.AskWait = time.Second })
	l := limit("central", quota.MaxTokens, quota.Soft)
	l.Decide = quota.AtLeader
	c.apply(l)
	var led []quota.Key
	for i := 0; len(led) < 256; i++ {
		if k := (quota.Key{LimitName: l.LimitName, Key: strconv.Itoa(i)}); c.leaderOf(k) == "n1" {
			led = append(led, k)
		}
	}
	for _, at := range []struct {
		name string
		node *Node
	}{{"own", c.nodes["n1"]}, {"hop", c.nodes["n2"]}} {
		check := func(b *testing.B, i int) {
			if d := at.node.Check(led[i%len(led)], 1); d.Why != quota.WhyLeader {
				b.Errorf("decided by %v", d.Why)
			}
		}
		b.Run(at.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				check(b, i)
			}
		})
		b.Run(at.name+", 64 callers", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(64 / runtime.GOMAXPROCS(0))
			b.RunParallel(func(p *testing.PB) {
				for i := 0; p.Next(); i++ {
					check(b, i)
				}
			})
		})
	}
}
