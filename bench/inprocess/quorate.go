package inprocess

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/quota"

	"github.com/quorate/quorate/bench/process"
	"github.com/quorate/quorate/bench/suite"
)

const (
	namespace = "bench"
	limitName = "l"
	mostKeys  = 2_000_000
)

var limitOf = quota.LimitName{Namespace: namespace, Limit: limitName}

// table is what a node decides with: every key holds as many tokens as it may, or none. There is no
// network, and nothing reports.
type table struct{ a *aggregator.Aggregator }

func now() quota.Time { return quota.Time(time.Since(began)) + 1 }

func newTable(k kind, keys []string) (store, error) {
	a := aggregator.New(aggregator.Config{Self: "a", Ranges: 1, MaxKeys: mostKeys}, now())
	limit := quota.Limit{LimitName: limitOf, Rate: quota.Rate{Tokens: 1, Per: day}, Burst: 1}
	if k == enough {
		limit.Burst = quota.MaxTokens
	}
	limits, err := quota.NewLimits(1, []quota.Limit{limit})
	if err != nil {
		return nil, err
	}
	a.SetLimits(now(), limits)
	if k == enough {
		a.SetLeader(0, "a", 1)
	}
	for _, key := range keys { // opens them, and uses up a limit of one token
		if k == enough {
			a.TrySimple(now, limitOf, key, 1)
		} else {
			a.Draw(now, quota.Key{LimitName: limitOf, Key: key}, 1)
		}
	}
	if k == enough {
		hold(a)
	}
	return table{a}, nil
}

// hold answers every due key with a grant of plenty.
func hold(a *aggregator.Aggregator) {
	for _, r := range a.Collect(now()) {
		g := quota.Grant{Range: r.Range, Term: r.Term, From: "a", To: "a", At: now()}
		for _, e := range r.Entries {
			g.Entries = append(g.Entries, quota.GrantEntry{
				Key: e.Key, Epoch: e.Epoch, Seq: r.Seq, Ack: r.Seq, Tokens: quota.FromTokens(plenty),
				Level: quota.FromTokens(2 * plenty), Lease: day, Again: time.Hour,
			})
		}
		a.Apply(now(), g)
	}
}

// allow decides as a node does.
func (t table) allow(key string) bool {
	d, _, _ := t.a.TrySimple(now, limitOf, key, 1)
	return d.Allowed
}

// node is the real node that the clients of this package attach to. It runs while any client does.
var node struct {
	sync.Mutex
	c     *process.Cluster
	users int
}

// limits has one limit that no run exhausts, and one that a single token exhausts.
const limits = `version: 1
namespaces:
  bench:
    limits:
      l: {rate: 4000000000000/s, burst: 4000000000000}
  bench-never:
    limits:
      l: {rate: 1/24h, burst: 1}
`

// realNode returns the address of the node and a function that releases it. The first call starts
// the node, and the last release stops it.
func realNode(ctx context.Context) (addr string, stop func() error, err error) {
	node.Lock()
	defer node.Unlock()
	if node.c == nil {
		c, err := process.NewCluster(ctx, process.Options{Nodes: 1, Limits: limits, More: fmt.Sprintf("max_keys: %d\n", mostKeys)})
		if err != nil {
			return "", nil, err
		}
		node.c = c
	}
	node.users++
	return node.c.Nodes[0].GRPC, release, nil
}

func release() error {
	node.Lock()
	defer node.Unlock()
	if node.users--; node.users > 0 {
		return nil
	}
	c := node.c
	node.c = nil
	return c.Close()
}

func namespaceOf(k kind) string {
	if k == enough {
		return namespace
	}
	return namespace + "-never"
}

// source returns a node to attach to: realNode or serveGenerous.
type source func(ctx context.Context) (addr string, stop func() error, err error)

// attached is a client as a service has it, and a runner that checks it.
type attached struct {
	suite.Func
	*client.Client
	stop func() error
}

// attach returns a client that has received its limits from a node.
func attach(ctx context.Context, to source) (a attached, err error) {
	addr, stop, err := to(ctx)
	if err != nil {
		return a, err
	}
	c, err := client.New(ctx, []string{addr}, client.WithMaxKeys(mostKeys))
	if err != nil {
		return a, errors.Join(err, stop())
	}
	a = attached{Client: c, stop: stop}
	select {
	case <-c.Ready():
		return a, nil
	case <-time.After(time.Minute):
		return a, errors.Join(errors.New("not attached after a minute"), a.Close())
	}
}

// Close closes the client, and stops the node if no other client uses it.
func (a attached) Close() error { return errors.Join(a.Client.Close(), a.stop()) }
