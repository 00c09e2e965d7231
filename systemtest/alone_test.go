package systemtest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
	"github.com/quorate/quorate/shard"
)

const aloneLimits = `
version: 1
namespaces:
  api:
    limits:
      local:  {rate: 30/s, burst: 30, when_cut_off: local}
      share:  {rate: 30/s, burst: 30, when_cut_off: share}
      hold:   {rate: 30/s, burst: 30, when_cut_off: hold}
      open:   {rate: 30/s, burst: 30, when_cut_off: open}
      closed: {rate: 30/s, burst: 30, when_cut_off: closed}
      fixed:  {rate: 30/s, burst: 30, when_cut_off: {rate: 5/s}}
      staged: {rate: 30/s, burst: 30, when_cut_off: {policy: open, after: 3s, then: {rate: 5/s}}}
      hard:   {rate: 30/s, burst: 30, ceiling: hard}
      leader: {rate: 30/s, burst: 30, decide: leader, when_cut_off: {rate: 5/s}}
`

// alonePolicies holds, per limit, what a cut-off node answers to a load above its rate: why it
// admits, why it refuses, and the rate that it admits. Three nodes with equal demand share each
// limit, so each had a third of it before the cut.
var alonePolicies = map[string]struct {
	admits, refuses string
	rate            float64 // tokens per second; 0 admits nothing, negative admits everything
}{
	"local":  {"local", "over_limit", 30},
	"share":  {"share", "over_limit", 10}, // approximate: depends on where the load arrived before the cut
	"hold":   {"", "cut_off", 0},
	"open":   {"open", "", -1},
	"closed": {"", "cut_off", 0},
	"fixed":  {"fixed_rate", "over_limit", 5},
	"staged": {"fixed_rate", "over_limit", 5},
	"hard":   {"", "cut_off", 0},
	"leader": {"fixed_rate", "over_limit", 5},
}

// newNamespacedServers returns three nodes, each in a network namespace, and starts none of them.
func newNamespacedServers(t *testing.T, nets *netNamespaces, ranges int) *servers {
	t.Helper()
	c := &servers{t: t, dir: t.TempDir(), ranges: ranges}
	for k := 1; k <= 3; k++ {
		at := func(port int) string { return fmt.Sprintf("10.213.78.%d:%d", 4*k+2, port) }
		c.nodes = append(c.nodes, &server{
			id: fmt.Sprintf("n%d", k), httpAddr: at(7411), grpc: at(7412), peer: fmt.Sprintf("10.213.77.%d:7413", k),
			prefix: []string{"ip", "netns", "exec", nets.space(k)},
		})
	}
	return c
}

// flood checks every key at every node 60 times a second until its context ends.
type flood struct {
	mu  sync.Mutex
	all map[quota.Key][]stamped
	wg  sync.WaitGroup
}

// startFlood runs one caller per node and key, so that a key whose leader is slow does not delay
// the others.
func startFlood(ctx context.Context, t *testing.T, nodes []*server, keys []quota.Key) *flood {
	f := &flood{all: map[quota.Key][]stamped{}}
	for _, s := range nodes {
		for _, k := range keys {
			f.wg.Go(func() {
				tick := time.NewTicker(time.Second / 60)
				defer tick.Stop()
				for ctx.Err() == nil {
					sent := time.Now()
					a, err := try(s, http.MethodPost, "/v1/allow", in(k))
					if err != nil || a.code != 200 && a.code != 429 {
						t.Errorf("%s: %v: %d %s, %v", s.id, k, a.code, a.body, err)
						return
					}
					f.mu.Lock()
					f.all[k] = append(f.all[k], stamped{a, s.id, sent, time.Now()})
					f.mu.Unlock()
					<-tick.C
				}
			})
		}
	}
	return f
}

// between returns the answers of a node to requests sent and answered between two times.
func (f *flood) between(k quota.Key, node string, from, to time.Time) []stamped {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []stamped
	for _, a := range f.all[k] {
		if a.node == node && !a.sent.Before(from) && a.since.Before(to) {
			out = append(out, a)
		}
	}
	return out
}

// part returns the fraction of the last requests for a key that went to the node. All nodes get
// requests at the same rate, except where the machine is busy.
func (f *flood) part(k quota.Key, node string, lately time.Duration) float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	own, all := 0.0, 0.0
	for _, a := range f.all[k] {
		if time.Since(a.sent) > lately {
			continue
		}
		if all++; a.node == node {
			own++
		}
	}
	return own / all
}

// whys returns the reasons for which requests were admitted and refused, and how many passed.
func whys(all []stamped) (admitted, refused []string, passed int) {
	for _, a := range all {
		to := &refused
		if a.Allowed {
			to = &admitted
			passed++
		}
		if !slices.Contains(*to, a.Why) {
			*to = append(*to, a.Why)
		}
	}
	return admitted, refused, passed
}

// TestAlone checks that a node that is cut off under load follows every when_cut_off policy, and
// that ordinary answers and exact bookings return after the cut heals.
func TestAlone(t *testing.T) {
	testspeed.Full(t)
	needBinary(t)
	nets := newNetNamespaces(t)
	c := newNamespacedServers(t, nets, 8)
	c.run(aloneLimits)
	lone := c.nodes[2]
	var names []string
	for name := range alonePolicies {
		names = append(names, "api/"+name)
	}
	slices.Sort(names)
	keys := c.keysLedBy("n1", names...)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	f := startFlood(ctx, t, c.nodes, keys)
	shared := keys[slices.IndexFunc(keys, func(k quota.Key) bool { return k.Limit == "share" })]
	before := awaitCalm(t, c.nodes[0], f, shared, lone.id)
	shares := map[string]float64{"share": f.part(shared, lone.id, calm) * 30}
	nets.link(3, "down")
	cut := time.Now()
	stagedOpen := false
	eventually(t, 12*time.Second, "the lone node follows all policies", func() error {
		for _, k := range keys {
			p := alonePolicies[k.Limit]
			last := f.between(k, lone.id, time.Now().Add(-500*time.Millisecond), time.Now())
			admits, refuses, _ := whys(last)
			stagedOpen = stagedOpen || k.Limit == "staged" && slices.Contains(admits, "open")
			if p.admits != "" && !slices.Contains(admits, p.admits) || p.refuses != "" && !slices.Contains(refuses, p.refuses) {
				return fmt.Errorf("%v: admitted %v, refused %v", k, admits, refuses)
			}
			if slices.Contains(refuses, "not_held") || slices.Contains(admits, "held") || slices.Contains(admits, "estimate") {
				return fmt.Errorf("%v: still admitted %v, refused %v", k, admits, refuses)
			}
		}
		return nil
	})
	t.Logf("by all policies %v after the cut", time.Since(cut).Round(100*time.Millisecond))
	if !stagedOpen {
		t.Error("staged was never open")
	}
	from := time.Now()
	time.Sleep(2 * time.Second) // the window in which checkAlone measures the admitted rate
	for _, k := range keys {
		checkAlone(t, k, f.between(k, lone.id, from, time.Now()), time.Since(from).Seconds(), shares)
	}

	nets.link(3, "up")
	healed := time.Now()
	eventually(t, 20*time.Second, "the lone node is back", func() error {
		for _, k := range keys {
			admits, refuses, n := whys(f.between(k, lone.id, time.Now().Add(-300*time.Millisecond), time.Now()))
			for _, why := range append(admits, refuses...) {
				if !slices.Contains([]string{"held", "estimate", "over_limit", "not_held", "leader"}, why) {
					return fmt.Errorf("%v: admitted %d by %v, refused by %v", k, n, admits, refuses)
				}
			}
		}
		return nil
	})
	t.Logf("ordinary answers %v after the healing", time.Since(healed).Round(100*time.Millisecond))
	stop()
	f.wg.Wait()
	checkBooked(t, c, f, keys, before)
}

// calm is the period over which nodes learn each other's demand.
const calm = 1500 * time.Millisecond

// awaitCalm waits until no election has happened for the calm period and the nodes were asked
// equally often during it, and returns the status then. After a stall of the machine, nodes still
// go by the demand that they saw during the stall.
func awaitCalm(t *testing.T, s *server, f *flood, k quota.Key, node string) (last status) {
	t.Helper()
	var since time.Time
	eventually(t, 20*time.Second, "an ordinary moment", func() error {
		st, err := s.status()
		if err != nil {
			return err
		}
		if !slices.Equal(st.terms(), last.terms()) {
			last, since = st, time.Now()
		}
		if d := time.Since(since); d < calm {
			return fmt.Errorf("a leader was elected %v ago", d)
		}
		if part := f.part(k, node, calm); part < 0.28 || part > 0.38 {
			return fmt.Errorf("%.2f of all was asked of %s", part, node)
		}
		return nil
	})
	return last
}

// checkAlone compares the answers of a node during the cut with the policy of the limit.
func checkAlone(t *testing.T, k quota.Key, all []stamped, seconds float64, shares map[string]float64) {
	t.Helper()
	p := alonePolicies[k.Limit]
	if share, ok := shares[k.Limit]; ok {
		p.rate = share
	}
	admits, refuses, n := whys(all)
	rate := float64(n) / seconds
	t.Logf("%-6s admitted %5.1f/s of %5.1f/s %v, refused %v", k.Limit, rate, float64(len(all))/seconds, admits, refuses)
	if len(admits) > 1 || len(refuses) > 1 || len(admits) == 1 && admits[0] != p.admits || len(refuses) == 1 && refuses[0] != p.refuses {
		t.Errorf("%s: admitted by %v, refused by %v; want %q and %q", k.Limit, admits, refuses, p.admits, p.refuses)
	}
	switch {
	case p.rate == 0 && n > 0, p.rate < 0 && n < len(all), len(all) == 0:
		t.Errorf("%s: admitted %d of %d", k.Limit, n, len(all))
	case p.rate > 0 && (rate > 1.25*p.rate+1 || rate < 0.75*p.rate-1):
		t.Errorf("%s: admitted %.1f/s; want about %.0f/s", k.Limit, rate, p.rate)
	}
}

// checkBooked waits until the leaders have booked every admitted token exactly once, except those
// admitted by an open policy. It skips a key in two cases: when its range had an election (a new
// leader counts from its election on, and busy machines cause elections), and when the test looked
// too late (a leader forgets a key that nobody holds once its bucket is full, a second after the
// end).
func checkBooked(t *testing.T, c *servers, f *flood, keys []quota.Key, before status) {
	t.Helper()
	began := time.Now()
	wrong := map[quota.Key]time.Duration{} // when the count last differed from what was admitted
	eventually(t, 3*time.Second, "the leaders have booked what was admitted", func() (err error) {
		keys = slices.DeleteFunc(keys, func(k quota.Key) bool {
			e := checkKeyBooked(t, c, f, k, before, began, wrong)
			if e != nil {
				err = fmt.Errorf("%v: %w", k, e)
			}
			return e == nil
		})
		return err
	})
	t.Logf("all is booked %v after the end", time.Since(began).Round(100*time.Millisecond))
}

func checkKeyBooked(t *testing.T, c *servers, f *flood, k quota.Key, before status, ended time.Time, wrong map[quota.Key]time.Duration) error {
	r := shard.Of(k, c.ranges)
	st, err := c.nodes[0].status()
	if err != nil {
		return err
	}
	if now, then := st.Ranges[r].Term, before.Ranges[r].Term; now != then {
		t.Logf("%v is left out: range %d had an election, term %d, then %d", k, r, then, now)
		return nil
	}
	var want int64
	for _, a := range f.all[k] {
		if a.Allowed && a.Why != "open" {
			want++
		}
	}
	got, err := counted(c.nodes[0], k)
	switch late := time.Since(ended); {
	case err != nil:
		return err
	case got[k.Limit] == 0 && wrong[k] > 3*time.Second:
		t.Errorf("%v: %v after the end it was still not %d that were booked, and then it was forgotten", k, wrong[k], want)
	case got[k.Limit] == 0 && late > 900*time.Millisecond:
		t.Logf("%v is left out: it was looked at %v after the end", k, late.Round(time.Millisecond))
	case got[k.Limit] != want:
		wrong[k] = late
		return fmt.Errorf("booked %v; want %d", got, want)
	}
	return nil
}
