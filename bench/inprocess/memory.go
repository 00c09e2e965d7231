package inprocess

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"

	"github.com/quorate/quorate/bench/process"
	"github.com/quorate/quorate/bench/suite"
)

// Each store is filled in its own process, because what is already in this one would distort its
// figures.

const memoryRole = "memory"

func init() { process.Roles[memoryRole] = measureMemory }

// reporters is the number of members that report every key to the leader.
const reporters = 10

// stores maps the rows of the memory table to functions that fill a store with keys.
var stores = map[string]func(keys []string) (any, error){
	"Quorate, a member":         func(keys []string) (any, error) { return newTable(enough, keys) },
	leaderRow:                   newLedger,
	"GCRA in 256 locked maps":   fill(func() (store, error) { return newShards(), nil }),
	"GCRA in an xsync map":      fill(func() (store, error) { return newXsyncGCRA(), nil }),
	timeRateXsync:               fill(func() (store, error) { return newXsyncTimeRate(), nil }),
	"x/time/rate in a sync.Map": fill(func() (store, error) { return newSyncMapTimeRate(), nil }),
	"sethvargo/go-limiter":      fill(func() (store, error) { return newGoLimiter(enough) }),
	"throttled":                 fill(func() (store, error) { return newThrottled(enough) }),
	"ulule/limiter":             fill(func() (store, error) { return newUlule(enough), nil }),
}

var leaderRow = fmt.Sprintf("Quorate, a leader, %d members", reporters)

func fill(open func() (store, error)) func(keys []string) (any, error) {
	return func(keys []string) (any, error) {
		s, err := open()
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			s.allow(k)
		}
		return s, nil
	}
}

// newLedger returns a range's ledger to which members have reported all keys. Each report has its
// own strings, as if read from the wire.
func newLedger(keys []string) (any, error) {
	limits, err := quota.NewLimits(1, []quota.Limit{{
		LimitName: limitOf, Rate: quota.Rate{Tokens: 1_000_000, Per: time.Second}, Burst: 1_000_000,
	}})
	if err != nil {
		return nil, err
	}
	var members []quota.NodeID
	for m := range reporters {
		members = append(members, quota.NodeID(fmt.Sprintf("n%d", m)))
	}
	at := quota.Time(time.Hour)
	l := leader.New(leader.Config{MaxKeys: mostKeys, First: true}, 0, 1, "n0", members, limits, nil, at)
	const most = 4096
	seq := quota.Seq(0)
	for from := 0; from < len(keys); from += most {
		seq++
		for _, m := range members {
			r := quota.Report{Term: 1, From: m, Incarnation: 1, Seq: seq, Age: time.Minute}
			for _, k := range keys[from:min(from+most, len(keys))] {
				r.Entries = append(r.Entries, quota.ReportEntry{
					Key: quota.Key{LimitName: limitOf, Key: strings.Clone(k)}, Epoch: 1,
					Overdrawn: quota.Token, Unreported: quota.Token,
				})
			}
			if _, err := l.Report(at, r); err != nil {
				return nil, err
			}
		}
		at = at.Add(time.Millisecond)
	}
	if l.Len() != len(keys) {
		return nil, fmt.Errorf("%d accounts of %d keys", l.Len(), len(keys))
	}
	return l, nil
}

// measureMemory fills one store with fresh keys and prints its memory.
func measureMemory(args []string) error {
	if len(args) != 2 || stores[args[0]] == nil {
		return fmt.Errorf("%q: want the name of a store and a number of keys", args)
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	keys := keyNames(n)
	before := heap()
	s, err := stores[args[0]](cloned(keys))
	if err != nil {
		return err
	}
	after := heap()
	var pauses []float64
	for range 5 {
		began := time.Now()
		runtime.GC()
		pauses = append(pauses, float64(time.Since(began))/float64(time.Millisecond))
	}
	slices.Sort(pauses)
	runtime.KeepAlive(s)
	runtime.KeepAlive(keys)
	return json.NewEncoder(os.Stdout).Encode(suite.Sample{
		"heap":    float64(after.HeapAlloc-before.HeapAlloc) / float64(n),
		"objects": float64(after.HeapObjects-before.HeapObjects) / float64(n),
		"GC":      pauses[len(pauses)/2],
	})
}

func heap() runtime.MemStats {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m
}

func memorySubject(keys int, name string, targets ...suite.Target) suite.Subject {
	return suite.Subject{Name: name, Ours: strings.HasPrefix(name, "Quorate"), Targets: targets, Start: func(context.Context) (suite.Runner, error) {
		return suite.Func(func(ctx context.Context, _ time.Duration) (suite.Sample, error) {
			text, err := process.RunRole(ctx, memoryRole, name, strconv.Itoa(keys))
			if err != nil {
				return nil, err
			}
			var s suite.Sample
			err = json.Unmarshal(text, &s)
			return s, err
		}), nil
	}}
}

var memoryMeasures = []suite.Measure{{Name: "heap", Unit: "bytes a key"}, {Name: "objects", Unit: "a key"}, {Name: "GC", Unit: "ms"}}

func memory(keys int) suite.Group {
	return suite.Group{
		Name:  "memory",
		Title: fmt.Sprintf("Memory of an open key, %s keys of 24 bytes", suite.Number(float64(keys))),
		Note: "Live heap per key, including the key's own bytes; GC is a forced collection while the store is alive. " +
			"Each row is from a process of its own; the leader has a tenth of the keys.",
		Measures: memoryMeasures, Reference: timeRateXsync, Rounds: 3, QuickRounds: 1,
		Subjects: []suite.Subject{
			memorySubject(keys, "Quorate, a member", suite.Target{Measure: "heap", AtMost: 100}, suite.Target{Measure: "GC", AtMost: 30}),
			memorySubject(keys/reporters, leaderRow, suite.Target{Measure: "heap", AtMost: 160}, suite.Target{Measure: "GC", AtMost: 30}),
			memorySubject(keys, timeRateXsync), memorySubject(keys, "GCRA in 256 locked maps"), memorySubject(keys, "GCRA in an xsync map"),
			memorySubject(keys, "x/time/rate in a sync.Map"), memorySubject(keys, "sethvargo/go-limiter"), memorySubject(keys, "throttled"), memorySubject(keys, "ulule/limiter"),
		},
	}
}
