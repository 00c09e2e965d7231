package inprocess

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/ratelimit"

	"github.com/quorate/quorate/bench/suite"
)

const timeRate = "x/time/rate"

// hotPeers returns the peers with one key, checked again and again. They count decisions of the
// given kind.
func hotPeers(k kind) []suite.Subject {
	subjects := []suite.Subject{subject(timeRate, timeRateHot(k)), subject("GCRA, compare and swap", gcraHot(k))}
	if k == enough {
		subjects = append(subjects, subject("atomic add and compare", atomicAdd), subject("go.uber.org/ratelimit", uberHot))
	}
	return append(subjects,
		subject("juju/ratelimit", jujuHot(k)),
		subject("sethvargo/go-limiter", storeHot(k, func() (store, error) { return newGoLimiter(k) })),
		subject("throttled", storeHot(k, func() (store, error) { return newThrottled(k) })),
		subject("ulule/limiter", storeHot(k, func() (store, error) { return newUlule(k), nil })),
	)
}

// atomicAdd is the cost of counting alone: no refill, no clock.
func atomicAdd() (loop, error) {
	var used atomic.Int64
	return func(_, n int) (ok int) {
		for range n {
			ok += count(used.Add(1) <= 1<<62)
		}
		return ok
	}, nil
}

func timeRateHot(k kind) func() (loop, error) {
	return func() (loop, error) {
		l := timeRateOf(k)
		l.Allow()
		return func(_, n int) (ok int) {
			for range n {
				ok += count(l.Allow() == bool(k))
			}
			return ok
		}, nil
	}
}

func gcraHot(k kind) func() (loop, error) {
	return func() (loop, error) {
		var g gcra
		g.allow(k)
		return func(_, n int) (ok int) {
			for range n {
				ok += count(g.allow(k) == bool(k))
			}
			return ok
		}, nil
	}
}

// uberHot measures a limiter that waits instead of refusing. At this rate it never waits.
func uberHot() (loop, error) {
	l := ratelimit.New(1e9)
	return func(_, n int) (ok int) {
		for range n {
			l.Take()
		}
		return n
	}, nil
}

func jujuHot(k kind) func() (loop, error) {
	return func() (loop, error) {
		b := jujuOf(k)
		b.TakeAvailable(1)
		return func(_, n int) (ok int) {
			for range n {
				ok += count((b.TakeAvailable(1) == 1) == bool(k))
			}
			return ok
		}, nil
	}
}

func storeHot(k kind, open func() (store, error)) func() (loop, error) {
	return func() (loop, error) {
		s, err := open()
		if err != nil {
			return nil, err
		}
		s.allow("k")
		return func(_, n int) (ok int) {
			for range n {
				ok += count(s.allow("k") == bool(k))
			}
			return ok
		}, nil
	}
}

// hotOurs returns Quorate's subjects: a client checked by a handle and by name, and a node's table.
func hotOurs(k kind, targets ...suite.Target) []suite.Subject {
	table := func(context.Context) (suite.Runner, error) {
		l, err := storeHot(k, func() (store, error) { return newTable(k, []string{"k"}) })()
		return runner(l), err
	}
	if k == never {
		return []suite.Subject{
			{Name: "Quorate, handle", Ours: true, Targets: targets, Start: clientHot(k, realNode, byHandle)},
			{Name: "Quorate, client by name", Ours: true, Start: clientHot(k, realNode, byName)},
			{Name: "Quorate, a node's table", Ours: true, Start: table},
		}
	}
	return []suite.Subject{
		{Name: "Quorate, handle, tokens held", Ours: true, Targets: targets, Start: clientHot(k, serveGenerous, byHandle)},
		{Name: "Quorate, client by name, held", Ours: true, Start: clientHot(k, serveGenerous, byName)},
		{Name: "Quorate, a node's table, held", Ours: true, Start: table},
		{Name: "Quorate, handle, flat out", Ours: true, Start: clientHot(k, realNode, byHandle)},
	}
}

// way is one way to check a key with a client.
type way func(ctx context.Context, a attached, k kind) loop

func byHandle(_ context.Context, a attached, k kind) loop {
	b := a.Bucket(namespaceOf(k), limitName, "k")
	return func(_, n int) (ok int) {
		for range n {
			ok += count(b.Allow() == bool(k))
		}
		return ok
	}
}

func byName(ctx context.Context, a attached, k kind) loop {
	name := namespaceOf(k)
	return func(_, n int) (ok int) {
		for range n {
			res, err := a.Allow(ctx, name, limitName, "k", 1)
			ok += count(err == nil && res.Allowed == bool(k))
		}
		return ok
	}
}

// warm is how long a client is checked before the first round, so that its node learns the demand.
const warm = time.Second

func clientHot(k kind, to source, how way) func(ctx context.Context) (suite.Runner, error) {
	return func(ctx context.Context) (suite.Runner, error) {
		a, err := attach(ctx, to)
		if err != nil {
			return nil, err
		}
		f := how(ctx, a, k)
		for began := time.Now(); time.Since(began) < warm; {
			f(0, stride)
		}
		a.Func = runner(f)
		return a, nil
	}
}
