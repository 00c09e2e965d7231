package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/bench/process"
	"github.com/quorate/quorate/bench/suite"
)

// Methods of accounts.
const (
	applyMethod = "/quorate.v1.AccountService/ApplyOps"
	readMethod  = "/quorate.v1.AccountService/GetAccounts"
)

// The accounts of a load. Each place is a section of accounts that lie in one range; there are more
// places than ranges, so they cover all ranges.
const (
	accountRanges = 64 // the default
	places        = 500
	perPlace      = 20
	fewCallers    = 64
	manyCallers   = 512
	opsPerCall    = 20
	contenders    = 9
)

// fsyncs is a measure of the tables of accounts.
const fsyncs = "fsyncs"

const (
	etcd       = "etcd"
	everySync  = "redis-server, appendfsync always"
	oneRange   = quorate + ", all in one range"
	redisAlone = "redis-server is one process without a replica."
)

// accountGroups returns the tables of durable balances, each beside etcd's key-value store and
// Redis.
func accountGroups() []suite.Group {
	put := func(callers int) suite.Subject {
		return etcdServers(func(d *dialled) load { return d.called(callers, putMethod, puts(), 1, anyAnswer) })
	}
	one := func(callers int, place func(i int) int) func(*dialled) load {
		return func(d *dialled) load { return d.called(callers, applyMethod, changes(1, place), 1, applied) }
	}
	txn := etcdServers(func(d *dialled) load {
		return d.called(fewCallers, txnMethod, transactions(opsPerCall), opsPerCall, succeeded)
	})
	pair := etcdServers(func(d *dialled) load { return d.called(fewCallers, txnMethod, transactions(2), 2, succeeded) })
	get := etcdServers(func(d *dialled) load { return d.called(fewCallers, rangeMethod, gets(), 1, anyAnswer) })
	return []suite.Group{
		accountGroup("accounts-64", "Accounts, one operation a call, 64 callers", "etcd puts.",
			put(fewCallers),
			accountNodes(quorate, one(fewCallers, anyPlace), atLeast(rate, 2, etcd), atMost(p99, 1, etcd)),
			accountNodes(oneRange, one(fewCallers, firstPlace)),
			syncedRedis(fewCallers, 1, increments(1))),
		accountGroup("accounts-512", "Accounts, one operation a call, 512 callers", "etcd puts.",
			put(manyCallers),
			accountNodes(quorate, one(manyCallers, anyPlace), atLeast(rate, 2, etcd), atMost(p99, 1, etcd)),
			accountNodes(oneRange, one(manyCallers, firstPlace)),
			syncedRedis(manyCallers, 1, increments(1))),
		accountGroup("accounts-batch", "Accounts, 20 operations a call, 64 callers", "The operations of a call are atomic, and of one range; etcd has transactions of 20 puts, Redis MULTI and EXEC.",
			txn,
			accountNodes(quorate, func(d *dialled) load {
				return d.called(fewCallers, applyMethod, changes(opsPerCall, anyPlace), opsPerCall, applied)
			}, atLeast(rate, 2, etcd)),
			syncedRedis(fewCallers, opsPerCall, increments(opsPerCall))),
		accountGroup("accounts-two", "Accounts, two ranges atomically, 64 callers", "Two operations a call, on accounts of two ranges; etcd has transactions of two puts, in its one range.",
			pair,
			accountNodes(quorate, func(d *dialled) load {
				return d.called(fewCallers, applyMethod, transfers(), 2, applied)
			}, atLeast(rate, 4000, "")),
			syncedRedis(fewCallers, 2, increments(2))),
		accountGroup("accounts-contended", "Accounts, nine callers on the same two accounts of two ranges", "An operation is a call that changes both accounts; etcd has transactions of two puts.",
			etcdServers(func(d *dialled) load { return d.called(contenders, txnMethod, transactions(2)[:1], 1, succeeded) }),
			accountNodes(quorate, func(d *dialled) load {
				return d.called(contenders, applyMethod, transfers()[:1], 1, applied)
			}, atLeast(rate, 300, ""))),
		accountGroup("accounts-read", "Accounts, linearizable reads, 64 callers", "One account a call.",
			get,
			accountNodes(quorate, func(d *dialled) load { return d.called(fewCallers, readMethod, reads(), 1, anyAnswer) })),
	}
}

func accountGroup(name, title, note string, subjects ...suite.Subject) suite.Group {
	g := group(name, title, fmt.Sprintf("Three nodes, %d accounts, %d ranges; an operation of Quorate is a checked change with a request ID; a put of etcd checks nothing. %s %s "+
		"All keep their data on one disk; fsyncs are calls of fsync and fdatasync by all servers together.", places*perPlace, accountRanges, note, redisAlone), subjects...)
	g.Measures = []suite.Measure{
		{Name: rate, Unit: "1/s", More: true}, {Name: p50, Unit: "µs"}, {Name: p99, Unit: "µs"}, {Name: cpu, Unit: "µs"}, {Name: fsyncs},
	}
	g.Full, g.Quick, g.Rounds = 3*time.Second, time.Second, 5
	return g
}

// accountID returns an account of a place.
func accountID(place, i int) *quoratev1.AccountID {
	return &quoratev1.AccountID{
		AppId: "bench", Realm: "project:bench", Identity: fmt.Sprintf("user:%08d", i), Namespace: fmt.Sprintf("@place%03d", place),
		Name: "balance", ResourceType: "tokens",
	}
}

func anyPlace(i int) int { return i }

func firstPlace(int) int { return 0 }

func changeOf(place, i int) *quoratev1.Op {
	return &quoratev1.Op{AccountId: accountID(place, i), Delta: 1, Options: uint32(quoratev1.OpOption_OP_OPTION_IGNORE_POLICY_BOUNDS)}
}

func call(ops ...*quoratev1.Op) *raw {
	return encoded(&quoratev1.ApplyOpsRequest{Ops: ops, RequestIdTtl: durationpb.New(time.Minute)})
}

// changes returns calls of some operations, each call in the range of its place.
func changes(ops int, place func(i int) int) []*raw {
	var out []*raw
	for p := range places {
		for at := 0; at < perPlace; at += ops {
			list := make([]*quoratev1.Op, ops)
			for i := range list {
				list[i] = changeOf(place(p), at+i)
			}
			out = append(out, call(list...))
		}
	}
	return out
}

// transfers returns calls that change an account of each of two places.
func transfers() []*raw {
	rng := rand.New(rand.NewPCG(5, 6))
	out := make([]*raw, places*perPlace)
	for i := range out {
		from := rng.IntN(places)
		out[i] = call(changeOf(from, rng.IntN(perPlace)), changeOf((from+1+rng.IntN(places-1))%places, rng.IntN(perPlace)))
	}
	return out
}

func reads() []*raw {
	var out []*raw
	for p := range places {
		for i := range perPlace {
			out = append(out, encoded(&quoratev1.GetAccountsRequest{Accounts: []*quoratev1.AccountID{accountID(p, i)}}))
		}
	}
	return out
}

// create makes all accounts, over a connection of its own.
func create(ctx context.Context, addr string) (err error) {
	c, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	client := quoratev1.NewAccountServiceClient(c)
	for p := range places {
		req := &quoratev1.ApplyOpsRequest{}
		for i := range perPlace {
			o := changeOf(p, i)
			o.RelativeTo = quoratev1.RelativeTo_RELATIVE_TO_ZERO
			req.Ops = append(req.Ops, o)
		}
		res, err := client.ApplyOps(ctx, req)
		if err != nil {
			return err
		}
		if !res.Applied {
			return fmt.Errorf("creating accounts: %v", res)
		}
	}
	return nil
}

// accountNodes is three nodes of Quorate with all accounts.
func accountNodes(name string, load func(*dialled) load, targets ...suite.Target) suite.Subject {
	return suite.Subject{Name: name, Ours: true, Targets: targets, Start: func(ctx context.Context) (suite.Runner, error) {
		return begin(ctx, func(r *runner) error {
			c, err := process.NewCluster(ctx, process.Options{Nodes: 3, Ranges: accountRanges})
			if err != nil {
				return err
			}
			r.servers, r.syncs = c.Processes(), true
			for _, n := range c.Nodes {
				r.debug = append(r.debug, n.Debug)
			}
			r.closers = append(r.closers, c.Close)
			if err := create(ctx, c.Nodes[0].GRPC); err != nil {
				return err
			}
			return r.dial(c.Addrs(), load)
		})
	}}
}

// lastID makes request ids differ. It starts at the time, because nodes remember those of earlier
// runs.
var lastID atomic.Int64

func init() { lastID.Store(time.Now().UnixNano()) }

// called is a closed loop of calls whose answers are checked. Calls of ApplyOps get a request id
// each.
func (d *dialled) called(callers int, method string, reqs []*raw, ops int, check func(answer []byte) error) load {
	return func(ctx context.Context, length time.Duration) (int, []time.Duration, error) {
		return crowd(callers, length, func(i int, rng *rand.Rand) (func() error, error) {
			conn, in, out := d.conns[i%len(d.conns)], new(raw), new(raw)
			return func() error {
				in.data = append(in.data[:0], reqs[rng.IntN(len(reqs))].data...)
				if method == applyMethod {
					in.data = protowire.AppendTag(in.data, 1, protowire.BytesType)
					in.data = protowire.AppendString(in.data, strconv.FormatInt(lastID.Add(1), 36))
				}
				if err := conn.Invoke(ctx, method, in, out); err != nil {
					return err
				}
				return check(out.data)
			}, nil
		}, ops)
	}
}

func anyAnswer(answer []byte) error {
	if len(answer) == 0 {
		return errors.New("an empty answer")
	}
	return nil
}

// applied returns an error unless an answer of ApplyOps says that all was applied.
func applied(answer []byte) error { return isTrue(answer, 3) }

// succeeded returns an error unless an answer of etcd says that a transaction succeeded.
func succeeded(answer []byte) error { return isTrue(answer, 2) }

// isTrue returns an error unless the field of a message is true.
func isTrue(message []byte, field protowire.Number) error {
	for rest := message; len(rest) > 0; {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			break
		}
		size := protowire.ConsumeFieldValue(number, kind, rest[n:])
		if size < 0 {
			break
		}
		if number == field && kind == protowire.VarintType && rest[n] == 1 {
			return nil
		}
		rest = rest[n+size:]
	}
	return fmt.Errorf("an answer that is not applied: %x", message[:min(len(message), 100)])
}

// syncedRedis is redis-server that syncs before each answer. Its callers change counters, some of
// them in a transaction.
func syncedRedis(callers, ops int, requests pipeline) suite.Subject {
	return redisWith(everySync, func(dir string) []string {
		return []string{"--save", "", "--appendonly", "yes", "--appendfsync", "always", "--dir", dir}
	}, func(r *runner, addr string) error {
		answers := 1
		if ops > 1 {
			answers = ops + 2 // of MULTI, of each, and of EXEC
		}
		w := &wire{addr: addr, conns: callers, pipeline: 1, requests: requests, read: severalRESP(answers)}
		r.syncs = true
		r.load = func(ctx context.Context, length time.Duration) (int, []time.Duration, error) {
			done, took, err := w.run(ctx, length)
			return done * ops, took, err
		}
		return nil
	})
}

// increments returns commands that add to as many counters, in a transaction if they are several.
func increments(ops int) pipeline {
	out := make(pipeline, places*perPlace/ops)
	for i := range out {
		for k := range ops {
			out[i] = append(out[i], command("INCRBY", key(ops*i+k), "1")...)
		}
		if ops > 1 {
			out[i] = append(append(command("MULTI"), out[i]...), command("EXEC")...)
		}
	}
	return out
}
