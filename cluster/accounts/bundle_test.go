package accounts

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// TestBundle has many callers on three nodes change the same accounts of two ranges. Waiting
// callers of one node share an attempt, and each gets its own answer, also if it repeats its call
// at another node.
func TestBundle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, rounds = 30, 5
		c := newLeaderAndFollowers(t, 2)
		answers := make([][]account.Result, callers*rounds)
		call := func(node, i int, want account.Code) []account.Result {
			mine := slices.Clone(c.ops)
			if i%2 == 0 {
				slices.Reverse(mine)
			}
			out, err := c.nodes[node%3].ApplyOps(t.Context(), account.Caller{By: "me"}, strconv.Itoa(i), 0, mine)
			if err != nil || out.Code != want {
				t.Errorf("call %d: %+v, %v", i, out, err)
			}
			return out.Results
		}
		var wg sync.WaitGroup
		for w := range callers {
			wg.Go(func() {
				for i := w; i < len(answers); i += callers {
					answers[i] = call(w, i, account.Done)
				}
			})
		}
		wg.Wait()
		if got := c.begun.Load(); got > callers*rounds/3 {
			t.Errorf("%d attempts for %d calls, want a third at most", got, callers*rounds)
		}
		c.idle(t, callers*rounds)
		for i, want := range answers {
			if got := call(i+1, i, account.Repeated); !reflect.DeepEqual(got, want) {
				t.Errorf("call %d was answered %+v, its repetition %+v", i, want, got)
			}
		}
		slices.SortFunc(answers, func(a, b []account.Result) int { return int(a[0].New - b[0].New) })
		for i, a := range answers {
			want := account.Result{Previous: int64(i), Adjusted: int64(i), New: int64(i + 1)}
			if !reflect.DeepEqual(a, []account.Result{want, want}) {
				t.Errorf("%d. answer: %+v, want %+v twice", i, a, want)
			}
		}
	})
}

// TestBundleOfShortMemory checks that calls join no bundle that may end after the ID of one of them is forgotten: its
// caller may leave and repeat it, and a range that forgets the repetition would apply both.
func TestBundleOfShortMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tt := range map[string]struct {
			id   string
			asks time.Duration // how long its ID is remembered; 0 for the default
			long time.Duration // the other call's deadline
			want bool          // they share a bundle
		}{
			"remembered for hours":               {"a", 0, callLimit, true},
			"remembered for less than the other": {"a", time.Second, time.Minute, false},
			"remembered for a second":            {"a", time.Second, callLimit, false},
			"remembered for a minute":            {"a", time.Minute, callLimit, true},
			"without an ID":                      {"", time.Second, time.Minute, true},
		} {
			var g bundles
			of := func(id string, asks, limit time.Duration) *call {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				until, _ := ctx.Deadline()
				r := account.Request{By: "me", ID: id, TTL: remembered(ctx, asks), Ops: in(1)}
				return &call{parts: []part{{request: r}}, until: until}
			}
			first := g.join(of("other", 0, tt.long))
			if second := g.join(of(tt.id, tt.asks, callLimit)); !first || second == tt.want {
				t.Errorf("%s: the first begins one: %v, the second too: %v; want true, %v", name, first, second, !tt.want)
			}
		}
	})
}

// TestBundleModel has callers take units from the same accounts until none are left, while entries
// are lost, or written without an answer. Each request is applied exactly once in all ranges or
// refused, and tallied accordingly.
func TestBundleModel(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { bundleModel(t, seed) })
		})
	}
}

func bundleModel(t *testing.T, seed uint64) {
	const ranges, callers, each, limit = 2, 12, 10, 80
	w := newWorldOf(t, ranges)
	w.rule = &account.Policy{Default: limit, Limit: limit}
	faults := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex
	w.fail = func(int) (error, bool) {
		mu.Lock()
		defer mu.Unlock()
		switch faults.IntN(12) {
		case 0:
			return raftgroup.ErrNotLeader, false
		case 1:
			return raftgroup.ErrUncertain, true
		case 2:
			return raftgroup.ErrUncertain, false
		}
		return nil, false
	}
	w.meet = func(quota.RangeID, *account.Command) { time.Sleep(time.Millisecond) } // as long as a disk takes
	var bundled atomic.Int64
	w.logged = func(batch []byte) {
		_, commands, _ := account.DecodeBatch(batch)
		for i := range commands {
			if d := commands[i].Decide; d != nil && len(d.More) > 0 {
				bundled.Add(1)
			}
		}
	}
	w.Start()
	ops := in(ranges)
	for i := range ops {
		ops[i] = account.Op{Account: ops[i].Account, Policy: &day, Delta: -1}
	}
	var done, refused atomic.Int64
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				for { // until it gets an answer
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+c)*100*time.Millisecond)
					out, err := w.ApplyOps(ctx, account.Caller{By: "me"}, fmt.Sprint(c, " ", i), 0, ops)
					cancel()
					if err == nil && (out.Code == account.Done || out.Code == account.Repeated) {
						done.Add(1)
						break
					}
					if err == nil && out.Code == account.Failed {
						refused.Add(1)
						break
					}
				}
			}
		})
	}
	wg.Wait()
	time.Sleep(time.Minute) // for all work in progress to end
	for i := range ops {
		v := w.replicas[w.rangeOf(ops[i].Account)].View()
		if got := limit - v.Get(w.Now(), ops[i].Account).Balance; got != done.Load() || len(v.Pending(1)) > 0 {
			t.Errorf("account %d has lost %d for %d requests; pending %+v", i, got, done.Load(), v.Pending(1))
		}
	}
	if admitted, _ := w.taken(t); admitted != ranges*done.Load() || done.Load() != limit || refused.Load() != callers*each-limit {
		t.Errorf("%d done, %d refused, %d units tallied; want %d, %d and %d", done.Load(), refused.Load(), admitted, limit, callers*each-limit, ranges*limit)
	}
	if bundled.Load() == 0 {
		t.Error("no calls were committed together")
	}
}

// TestBundleLeft has callers leave that wait for others, or that others wait for.
func TestBundleLeft(t *testing.T) {
	for _, tc := range []struct {
		name    string
		leaves  int // index among the three callers behind the one under way; the first one waits for all
		when    string
		unknown bool
		want    int64 // calls that are applied
	}{
		{"first in line", 0, "waits", false, 3},
		{"another in line", 1, "waits", false, 3},
		{"first under way", 0, "begin", true, 4},
		{"another under way", 2, "begin", true, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorldOf(t, 2)
				ops := in(2)
				for i := range ops {
					ops[i].Options = account.IgnorePolicyBounds
					if _, err := w.ApplyOps(t.Context(), account.Caller{By: "me"}, "", 0, ops[i:i+1]); err != nil {
						t.Fatal(err)
					}
					ops[i].RelativeTo = account.Balance
				}
				goOn, leaves := make(chan struct{}), make(chan struct{})
				w.meet = func(_ quota.RangeID, c *account.Command) {
					switch {
					case c.Begin != nil && len(c.Begin.More) == 0:
						<-goOn
					case c.Begin != nil && tc.when == "begin":
						close(leaves)
						time.Sleep(time.Second)
					}
				}
				errs := make([]error, 4)
				var wg sync.WaitGroup
				call := func(ctx context.Context, i int) {
					wg.Go(func() {
						out, err := w.ApplyOps(ctx, account.Caller{By: "me"}, strconv.Itoa(i), 0, ops)
						if errs[i] = err; err == nil && out.Code != account.Done {
							t.Errorf("call %d: %+v", i, out)
						}
					})
					synctest.Wait()
				}
				call(t.Context(), 3) // under way
				gone, leave := context.WithCancelCause(t.Context())
				for i := range 3 {
					ctx := t.Context()
					if i == tc.leaves {
						ctx = gone
					}
					call(ctx, i)
				}
				if tc.when == "waits" {
					close(leaves)
				} else {
					close(goOn)
				}
				<-leaves
				leave(context.DeadlineExceeded)
				synctest.Wait()
				if tc.when == "waits" {
					close(goOn)
				}
				wg.Wait()
				for i, err := range errs {
					var u *UnavailableError
					if i != tc.leaves && err != nil || i == tc.leaves && (!errors.As(err, &u) || u.Unknown != tc.unknown) {
						t.Errorf("call %d: %v", i, err)
					}
				}
				time.Sleep(time.Minute) // for all work in progress to end
				for i := range ops {
					if got := w.replicas[w.rangeOf(ops[i].Account)].View().Get(w.Now(), ops[i].Account).Balance; got != 1+tc.want {
						t.Errorf("account %d has %d, want %d", i, got, 1+tc.want)
					}
				}
				if n := len(w.bundles.of); n != 0 {
					t.Errorf("%d bundles are left", n)
				}
			})
		})
	}
}
