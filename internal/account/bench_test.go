package account

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"
)

// benchWorld has n accounts with the given number of changes, each by a request with its own id.
// The ids have expired.
func benchWorld(b *testing.B, n, changes int) (*world, *PolicyRef) {
	w := newWorld(b)
	p := w.load("p", Policy{Default: 10, Limit: 1000, Refill: Refill{Units: 10, Interval: 86400}, Lifetime: 30 * 24 * time.Hour})
	for c := range changes {
		for i := range n {
			w.store.Apply(w.now, &Command{Apply: benchRequest(w, p, i, c)})
		}
		w.pass(3 * time.Hour)
		for w.store.Stats().Requests > 0 {
			w.store.Apply(w.now, &Command{Collect: &Collect{Max: maxCollect}})
		}
	}
	return w, p
}

func benchRequest(w *world, p *PolicyRef, account, number int) *Request {
	o := Op{Account: ID{
		App: "cv", Realm: "chromium:try", Identity: fmt.Sprintf("user:%07d@example.com", account),
		Namespace: "try", Name: "builds-per-day", Resource: "builds",
	}, Delta: -1, Policy: p, Options: IgnorePolicyBounds}
	rule := w.policies[*p]
	o.Rule = &rule
	return &Request{By: "user:scheduler@example.com", ID: fmt.Sprintf("build-%d-%d", account, number), Ops: []Op{o}}
}

// BenchmarkApply applies one request of one operation, among a hundred thousand accounts.
func BenchmarkApply(b *testing.B) {
	for _, ids := range []bool{true, false} {
		b.Run(fmt.Sprintf("ids=%v", ids), func(b *testing.B) {
			const n = 100_000
			w, p := benchWorld(b, n, 1)
			requests := make([]*Request, n)
			for i := range requests {
				requests[i] = benchRequest(w, p, i*7919%n, 2)
				if !ids {
					requests[i].ID = ""
				}
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if i%n == 0 {
					w.pass(3 * time.Hour)
				}
				w.store.Apply(w.now, &Command{Apply: requests[i%n]})
				i++
			}
		})
	}
}

// BenchmarkBatch sends 512 requests of one operation through the codec.
func BenchmarkBatch(b *testing.B) {
	w, p := benchWorld(b, 10_000, 1)
	commands := make([]Command, 512)
	for i := range commands {
		commands[i] = Command{Apply: benchRequest(w, p, i, 9)}
	}
	b.ReportAllocs()
	size := 0
	for b.Loop() {
		data, err := EncodeBatch(w.now, commands)
		if err != nil {
			b.Fatal(err)
		}
		size = len(data)
		at, list, err := DecodeBatch(data)
		if err != nil || len(list) != 512 || at != w.now {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/512, "ns/command")
	b.ReportMetric(float64(size)/512, "bytes/command")
}

// BenchmarkMillion measures the memory of a million accounts that changed once, and of fewer with a
// full history, and the time to write and to restore a snapshot.
func BenchmarkMillion(b *testing.B) {
	for _, c := range []struct{ n, changes int }{{1_000_000, 1}, {100_000, MaxHistory}} {
		n, changes := c.n, c.changes
		b.Run(fmt.Sprintf("accounts=%d/changes=%d", n, changes), func(b *testing.B) {
			before := heap()
			w, _ := benchWorld(b, n, changes)
			perAccount := float64(heap()-before) / float64(n)
			v := w.store.View()
			var data bytes.Buffer
			if err := v.Write(&data); err != nil {
				b.Fatal(err)
			}
			var writing, restoring time.Duration
			for b.Loop() {
				start := time.Now()
				if err := v.Write(io.Discard); err != nil {
					b.Fatal(err)
				}
				writing += time.Since(start)
				start = time.Now()
				if err := new(Store).Restore(bytes.NewReader(data.Bytes())); err != nil {
					b.Fatal(err)
				}
				restoring += time.Since(start)
			}
			b.ReportMetric(perAccount, "bytes/account")
			b.ReportMetric(float64(data.Len())/float64(n), "snapshot-bytes/account")
			b.ReportMetric(writing.Seconds()/float64(b.N), "s/write")
			b.ReportMetric(restoring.Seconds()/float64(b.N), "s/restore")
			runtime.KeepAlive(w)
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
