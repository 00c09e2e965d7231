package inprocess

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/quorate/quorate/client"

	"github.com/quorate/quorate/bench/suite"
)

func hash(key string) uint64 { return xxhash.Sum64String(key) }

const (
	draws = 1 << 18
	skew  = 1.1

	timeRateXsync = "x/time/rate in an xsync map"
)

// keyNames returns n keys of 24 bytes.
func keyNames(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("tenant-%017d", i)
	}
	return keys
}

// sequence draws requests in advance. Their strings do not share memory with the keys in the table,
// as in real requests.
func sequence(keys []string, dist string) []string {
	rng := rand.New(rand.NewPCG(1, 2))
	z := rand.NewZipf(rng, skew, 1, uint64(len(keys)-1))
	out := make([]string, draws)
	for i := range out {
		n := rng.IntN(len(keys))
		if dist == "zipf" {
			n = int(z.Uint64())
		}
		out[i] = strings.Clone(keys[n])
	}
	return out
}

// keyedSubjects returns tables of many keys, all of them open before the first round.
func keyedSubjects(manyKeys int, dist string, targets ...suite.Target) []suite.Subject {
	keys := keyNames(manyKeys)
	seq := sequence(keys, dist)
	of := func(name string, open func() (store, error)) suite.Subject {
		return subject(name, func() (loop, error) {
			s, err := open()
			if err != nil {
				return nil, err
			}
			for _, k := range keys {
				s.allow(strings.Clone(k))
			}
			return walk(s, seq), nil
		})
	}
	plain := func(f func() store) func() (store, error) { return func() (store, error) { return f(), nil } }
	table := of("Quorate, a node's table, held", func() (store, error) { return newTable(enough, cloned(keys)) })
	table.Ours, table.Targets = true, targets
	return []suite.Subject{
		table,
		of(timeRateXsync, plain(newXsyncTimeRate)),
		of("GCRA in 256 locked maps", plain(newShards)),
		of("GCRA in an xsync map", plain(newXsyncGCRA)),
		of("x/time/rate in a sync.Map", plain(newSyncMapTimeRate)),
		of("sethvargo/go-limiter", func() (store, error) { return newGoLimiter(enough) }),
		of("throttled", func() (store, error) { return newThrottled(enough) }),
		of("ulule/limiter", func() (store, error) { return newUlule(enough), nil }),
	}
}

// clientSubjects are separate from the tables, because they need gigabytes while they open.
func clientSubjects(manyKeys int, dist string, targets ...suite.Target) []suite.Subject {
	keys := keyNames(manyKeys)
	seq := sequence(keys, dist)
	out := []suite.Subject{
		{Name: "Quorate, client, tokens held", Ours: true, Targets: targets, Start: heldKeyed(keys, seq)},
		subject(timeRateXsync, func() (loop, error) {
			s := newXsyncTimeRate()
			for _, k := range keys {
				s.allow(strings.Clone(k))
			}
			return walk(s, seq), nil
		}),
	}
	if dist == "zipf" {
		out = append(out, suite.Subject{Name: "Quorate, client, flat out", Ours: true, Start: flatOutKeyed(seq)})
	}
	return out
}

func cloned(keys []string) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = strings.Clone(k)
	}
	return out
}

func walk(s store, seq []string) loop {
	return func(i, n int) (ok int) {
		for j := i; j < i+n; j++ {
			ok += count(s.allow(seq[j&(draws-1)]))
		}
		return ok
	}
}

// clientStore checks keys with a client.
type clientStore struct {
	ctx context.Context
	c   *client.Client
}

func (s clientStore) allow(key string) bool {
	res, err := s.c.Allow(s.ctx, namespace, limitName, key, 1)
	return err == nil && res.Allowed
}

// openTime bounds how long a client may take to get its grants. On a machine so slow that keys are
// dropped before they are checked again, it never gets them all.
const openTime = 20 * time.Second

// heldKeyed measures a client that holds plenty of tokens for every key.
func heldKeyed(keys, seq []string) func(ctx context.Context) (suite.Runner, error) {
	return func(ctx context.Context) (suite.Runner, error) {
		a, err := attach(ctx, serveGenerous)
		if err != nil {
			return nil, err
		}
		s := clientStore{ctx, a.Client}
		for _, k := range keys {
			s.allow(strings.Clone(k))
		}
		f := walk(s, seq)
		for began := time.Now(); time.Since(began) < openTime; time.Sleep(time.Second) {
			was := a.Stats().Decisions[client.ModeGranted]
			if f(0, draws); a.Stats().Decisions[client.ModeGranted]-was > draws-draws/100 {
				break // nearly every checked key has its grant
			}
		}
		a.Func = runner(f)
		return a, nil
	}
}

// flatOutKeyed measures a client of a real node: it holds tokens for the keys of the last seconds,
// and drops unused keys.
func flatOutKeyed(seq []string) func(ctx context.Context) (suite.Runner, error) {
	return func(ctx context.Context) (suite.Runner, error) {
		a, err := attach(ctx, realNode)
		if err != nil {
			return nil, err
		}
		f := walk(clientStore{ctx, a.Client}, seq)
		for began, i := time.Now(), 0; time.Since(began) < 3*warm; i += stride {
			f(i, stride)
		}
		a.Func = runner(f)
		return a, nil
	}
}
