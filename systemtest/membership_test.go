package systemtest

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// growth is a joinedCluster under load, with the figures of that load.
type growth struct {
	*joinedCluster
	keys  []quota.Key
	asks  *askers
	banks *deposits
	ends  map[*server]func() // end the checks at a node
	since map[*server]time.Time
	moves int // before this step
}

// everybody is the asker that knows all addresses, as a service would.
const everybody = -1

const (
	growAsked = 50              // checks a second of both keys, at each node and from the asker that knows all
	growGap   = 3 * time.Second // measured: 45 ms; on a shared machine a process may stall for a second
)

func startGrowth(t *testing.T, room int) *growth {
	t.Helper()
	g := &growth{joinedCluster: newJoinedCluster(t, 16, room), ends: map[*server]func(){}, since: map[*server]time.Time{}}
	first := g.nodes[0]
	g.begin(first)
	path := g.dir + "/limits.yaml"
	write(t, path, faultLimits)
	if _, msg, code := quorate(t, "limits", "apply", path, "--addr", first.grpc); code != 0 {
		t.Fatalf("limits apply: exit code %d\n%s", code, msg)
	}
	for _, l := range []string{"soft", "hard"} {
		g.keys = append(g.keys, key("api", l, "k"))
	}
	g.asks = newAskers(t, g.keys)
	var addrs []string
	for _, s := range g.nodes {
		addrs = append(addrs, s.grpc)
	}
	g.asks.add(everybody, keen(t, addrs, grpc.WithTransportCredentials(g.creds)), growAsked)
	g.banks = newDeposits(t, g.nodes, g.creds)
	g.load(first)
	g.banks.start()
	return g
}

// load starts to send checks and deposits to nodes.
func (g *growth) load(nodes ...*server) {
	g.t.Helper()
	for i, c := range dial(g.t, nodes, grpc.WithTransportCredentials(g.creds)) {
		s := nodes[i]
		k := slices.Index(g.nodes, s)
		g.since[s] = time.Now()
		g.ends[s] = g.asks.add(k, c, growAsked)
		g.banks.use(k)
	}
}

// grow lets nodes join under load and logs the figures.
func (g *growth) grow(nodes ...*server) {
	g.t.Helper()
	began := time.Now()
	took := g.join(nodes...)
	g.load(nodes...)
	g.balanced()
	g.tell(began, took)
}

// shrink lets nodes leave under load. They get load until they exit.
func (g *growth) shrink(nodes ...*server) {
	g.t.Helper()
	began := time.Now()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, s := range nodes {
			<-s.ended
			g.ends[s]()
			delete(g.since, s)
			g.banks.avoid(slices.Index(g.nodes, s))
		}
	}()
	took := g.leave(nodes...)
	<-ended
	g.balanced()
	g.tell(began, took)
}

// tell logs the figures of a step and checks them.
func (g *growth) tell(began time.Time, took time.Duration) {
	g.t.Helper()
	now := time.Now()
	gap, failed, last := g.asks.silence(everybody, began, now, nil)
	at, unanswered := "by who knows all", failed
	for s, from := range g.since {
		d, n, err := g.asks.silence(slices.Index(g.nodes, s), later(began, from), now, nil)
		if n > 0 {
			last = fmt.Errorf("%s: %w", s.id, err)
		}
		if unanswered += n; d > gap {
			gap, at = d, s.id
		}
	}
	moves := g.moved()
	g.t.Logf("%d nodes after %v, leaders balanced after %v; longest gap %v (%s); %d checks failed; %d steps of replicas",
		len(g.running()), took.Round(100*time.Millisecond), now.Sub(began).Round(100*time.Millisecond), gap.Round(time.Millisecond), at, unanswered, moves-g.moves)
	g.moves = moves
	if gap > growGap {
		g.t.Errorf("no answer for %v, %s", gap, at)
	}
	if unanswered > 0 {
		g.t.Errorf("%d checks failed, the last: %v", unanswered, last)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// judge compares what was admitted with the limits, and balances with answered deposits.
func (g *growth) judge() {
	g.t.Helper()
	g.asks.stop()
	var nodes []int
	for _, s := range g.running() {
		nodes = append(nodes, slices.Index(g.nodes, s))
	}
	if err := g.banks.verify(nodes); err != nil {
		g.t.Error(err)
	}
	g.t.Logf("%d deposits", g.banks.answered())
	limits, err := config.ParseLimits("limits.yaml", []byte(faultLimits))
	if err != nil {
		g.t.Fatal(err)
	}
	shots := g.asks.all()
	for i, k := range g.keys {
		l := &limits[slices.IndexFunc(limits, func(l quota.Limit) bool { return l.LimitName == k.LimitName })]
		m := measure(shots, i, l)
		g.t.Logf("%s: %d of %d admitted, one central limiter %d: %+.1f %%; at most %.0f beyond the limit", k.Limit, m.admitted, m.asked, m.ideal, m.net(), m.proven)
		if k.Limit == "hard" && m.proven > 0 {
			g.t.Errorf("hard: %.0f beyond the limit for certain", m.proven)
		}
	}
}

// TestGrow checks that a cluster that grows and shrinks under load keeps its limits, answers every
// check and loses no deposit. With SOAK_GROW it grows to nine nodes.
func TestGrow(t *testing.T) {
	testspeed.Full(t)
	sizes := []int{1, 3, 4, 3}
	if os.Getenv("SOAK_GROW") != "" {
		sizes = []int{1, 3, 5, 9, 3}
	}
	g := startGrowth(t, slices.Max(sizes))
	time.Sleep(2 * time.Second) // load before the first change
	for i, size := range sizes[1:] {
		if before := sizes[i]; size > before {
			g.grow(g.nodes[before:size]...)
		} else {
			g.shrink(g.nodes[size:before]...)
		}
	}
	g.judge()
}
