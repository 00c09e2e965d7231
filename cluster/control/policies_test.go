package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/filltest"
	"github.com/quorate/quorate/internal/machinetest"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
	"github.com/quorate/quorate/internal/testspeed"
)

// configID returns the ID of a config in the tests' realm.
func configID(version string) account.ConfigID {
	return account.ConfigID{App: "builds", Realm: "project:test", Version: version}
}

// somePolicies returns count different policies.
func somePolicies(count int) map[account.PolicyKey]account.Policy {
	out := map[account.PolicyKey]account.Policy{}
	for i := range count {
		out[account.PolicyKey{Namespace: "ns", Name: "p" + strconv.Itoa(i), Resource: "builds"}] = account.Policy{
			Default: int64(i), Limit: int64(i) + 10, Refill: account.Refill{Units: -int64(i), Interval: 3600, Offset: 60},
			Options: account.AbsoluteResource, Lifetime: time.Duration(i) * time.Hour,
		}
	}
	return out
}

// policies returns a config of count policies.
func policies(version string, count int) *policyConfig {
	return newPolicyConfig(configID(version), somePolicies(count), 1763712000000000000, "user:ops@example.com")
}

func loadCommand(c *policyConfig) *raftlogv1.MetaCommand {
	return &raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_LoadPolicies{LoadPolicies: &raftlogv1.LoadPolicies{Config: encodeConfig(c)}}}
}

func purgePoliciesCommand(id account.ConfigID) *raftlogv1.MetaCommand {
	return &raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_PurgePolicies{PurgePolicies: &raftlogv1.PurgePolicies{Id: encodeConfigID(id)}}}
}

// randomConfig returns a config that is sometimes invalid.
func randomConfig(rng *rand.Rand) *policyConfig {
	c := newPolicyConfig(configID("#"+strconv.Itoa(rng.IntN(9))), somePolicies(rng.IntN(8)), quota.Time(rng.IntN(3)), "somebody")
	switch rng.IntN(9) {
	case 0:
		c.policies = append(c.policies, c.policies...)
	case 1:
		c.id.Version = "7"
	}
	return c
}

func (m *Machine) applyPolicies(t testing.TB, cmd *raftlogv1.MetaCommand) policiesResult {
	t.Helper()
	res, ok := m.Apply(1, 1, snapshotio.Encode(cmd)).(policiesResult)
	if !ok {
		t.Fatal("no policiesResult")
	}
	return res
}

func TestLoadPurgePolicies(t *testing.T) {
	m := quietMeta()
	reloaded := 0
	m.Reloaded = func() { reloaded++ }
	other := func(c *policyConfig) *policyConfig { c.at++; return c }
	for i, step := range []struct {
		cmd      *raftlogv1.MetaCommand
		changed  bool
		revision uint64
	}{
		{loadCommand(policies("#1", 2)), true, 1},
		{loadCommand(policies("#1", 2)), true, 1},         // the same proposal again
		{loadCommand(other(policies("#1", 3))), false, 1}, // another caller's
		{loadCommand(policies("$abc", 1)), true, 2},
		{purgePoliciesCommand(configID("#2")), false, 2},
		{purgePoliciesCommand(configID("#1")), true, 3},
		{purgePoliciesCommand(configID("#1")), false, 3},
		{loadCommand(other(policies("#1", 3))), true, 4},
	} {
		if r := m.applyPolicies(t, step.cmd); r.err != nil || r.changed != step.changed || r.revision != step.revision {
			t.Errorf("step %d: %+v; want %v and revision %d", i, r, step.changed, step.revision)
		}
		if i == 2 {
			if c := m.Policies.Load().Find(configID("#1")); !reflect.DeepEqual(c, policies("#1", 2)) {
				t.Errorf("a config was replaced by %+v", c)
			}
		}
	}
	if reloaded != 4 {
		t.Errorf("told of %d changes; want 4", reloaded)
	}
	got := m.Policies.Load().Find(configID("#1")).whole()
	if want := somePolicies(3); !reflect.DeepEqual(got.Policies, want) || got.Count != 3 || got.By != "user:ops@example.com" {
		t.Errorf("stored %+v; want %+v", got, want)
	}
}

// TestPolicyRoundtrip: the encoding keeps all fields.
func TestPolicyRoundtrip(t *testing.T) {
	all := map[account.PolicyKey]account.Policy{filltest.Filled[account.PolicyKey](t): filltest.Filled[account.Policy](t)}
	want := newPolicyConfig(configID("#f"), all, 1, "x")
	if got, err := decodeConfig(encodeConfig(want)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("encoded and decoded: %+v, %v; want %+v", got, err, want)
	}
}

// TestPoliciesRefused: a refused config changes nothing, and the error says why.
func TestPoliciesRefused(t *testing.T) {
	m := quietMeta()
	m.maxConfigs, m.maxPolicyBytes = 2, 3*policies("#1", 5).size()
	m.applyPolicies(t, loadCommand(policies("#1", 5)))
	twice := policies("#2", 2)
	twice.policies[1] = twice.policies[0]
	big := map[account.PolicyKey]account.Policy{}
	for i := range account.MaxPolicies + 1 {
		big[account.PolicyKey{Name: strconv.Itoa(i)}] = account.Policy{}
	}
	huge := policies("#2", 1)
	huge.policies[0].key.Name = strings.Repeat("x", maxConfigBytes)
	for name, c := range map[string]struct {
		config *policyConfig
		want   string
	}{
		"none":          {policies("#2", 0), "0 in one config"},
		"too many":      {newPolicyConfig(configID("#2"), big, 1, ""), "10001 in one config"},
		"twice":         {twice, "comes after"},
		"version":       {policies("2", 1), `version: "2"`},
		"empty version": {policies("#", 1), `version: "#"`},
		"bytes in all":  {policies("#2", 13), "bytes, and"},
		"bytes in one":  {huge, "bytes in one config"},
	} {
		before := machinetest.Snapshot(t, m)
		if r := m.applyPolicies(t, loadCommand(c.config)); r.changed || r.err == nil || !strings.Contains(r.err.Error(), c.want) || r.revision != 1 {
			t.Errorf("%s: %+v; want an error with %q", name, r, c.want)
		}
		if !bytes.Equal(before, machinetest.Snapshot(t, m)) {
			t.Errorf("%s: it left something behind", name)
		}
	}
	if r := m.applyPolicies(t, loadCommand(policies("#2", 5))); !r.changed {
		t.Errorf("up to the bound: %+v", r)
	}
	r := m.applyPolicies(t, loadCommand(policies("#3", 1)))
	want := account.PoliciesFullError{What: "configs", Have: 2, Adding: 1, Most: 2}
	for _, err := range []error{r.err, decodePoliciesResult(encodePoliciesResult(r)).err} {
		if full := (*account.PoliciesFullError)(nil); !errors.As(err, &full) || *full != want {
			t.Errorf("too many configs: %v; want %v", err, &want)
		}
	}
	m.applyPolicies(t, purgePoliciesCommand(configID("#1")))
	if r := m.applyPolicies(t, loadCommand(policies("#3", 5))); !r.changed {
		t.Errorf("after a purge: %+v", r)
	}
	if over := decodePoliciesResult(encodePoliciesResult(policiesResult{err: errors.New("what")})); over.err == nil || over.err.Error() != "what" {
		t.Errorf("a fault became %+v", over)
	}
}

func TestListPolicies(t *testing.T) {
	m := quietMeta()
	for _, v := range []string{"#b", "$c", "#a", "#c"} {
		m.applyPolicies(t, loadCommand(policies(v, 1)))
		stranger := policies(v, 1)
		stranger.id.Realm = "project:tes" // sorts right before
		m.applyPolicies(t, loadCommand(stranger))
		stranger = policies(v, 1)
		stranger.id.App = "buildt" // and right after
		m.applyPolicies(t, loadCommand(stranger))
	}
	n := NewStore("n1", nil, m, slog.New(slog.DiscardHandler))
	for _, c := range []struct {
		after string
		limit int
		want  string
	}{
		{"", 10, "#a #b #c $c"}, {"", 2, "#a #b"}, {"#b", 2, "#c $c"}, {"#bb", 1, "#c"}, {"$c", 5, ""}, {"", 0, ""},
	} {
		list, err := n.ListPolicies(t.Context(), "builds", "project:test", c.after, c.limit)
		var got []string
		for _, l := range list {
			got = append(got, l.ID.Version)
			if l.Policies != nil || l.Count != 1 || l.By == "" || l.At == 0 || l.ID != configID(l.ID.Version) {
				t.Errorf("listed %+v", l)
			}
		}
		if strings.Join(got, " ") != c.want || err != nil {
			t.Errorf("%d after %q: %v, %v; want %s", c.limit, c.after, got, err, c.want)
		}
	}
	realms := []account.Realm{{App: "builds", Name: "project:tes", Configs: 4}, {App: "builds", Name: "project:test", Configs: 4}, {App: "buildt", Name: "project:test", Configs: 4}}
	for from := range realms {
		for limit := range 4 {
			var after account.Realm
			if from > 0 {
				after = realms[from-1]
			}
			if got, want := n.PolicyRealms(after, limit), realms[from:min(from+limit, 3)]; !slices.Equal(got, want) {
				t.Errorf("%d realms after %v: %v, want %v", limit, after, got, want)
			}
		}
	}
}

// late is a node that has missed a purge until it asks the meta leader, n2.
type late struct {
	Node
	m     *Machine
	purge []byte
}

func (n *late) MetaGroup() Group                          { return nil }
func (n *late) MetaLeader() quota.NodeID                  { return "n2" }
func (n *late) Now() quota.Time                           { return 5 }
func (n *late) Earliest() quota.Time                      { return 5 }
func (n *late) Behind(func(Progress) bool) []quota.NodeID { return nil }

func (n *late) Call(_ context.Context, _ quota.NodeID, c *peerv1.Call) (*peerv1.Call, error) {
	if load := c.GetPolicies(); load != nil {
		res := encodePoliciesResult(policiesResultOf(n.m.Apply(1, 1, load.GetCommand())))
		return &peerv1.Call{Body: &peerv1.Call_PoliciesResult{PoliciesResult: res}}, nil
	}
	n.m.Apply(1, 1, n.purge)
	return &peerv1.Call{Body: &peerv1.Call_PoliciesRevisionResult{PoliciesRevisionResult: &peerv1.CallPoliciesRevisionResult{
		Revision: n.m.Policies.Load().Revision,
	}}}, nil
}

// TestLoadAfterMissedPurge: a node that has missed the purge of a config stores the config again.
func TestLoadAfterMissedPurge(t *testing.T) {
	m := quietMeta()
	m.applyPolicies(t, loadCommand(policies("#1", 1)))
	s := NewStore("n1", &late{m: m, purge: snapshotio.Encode(purgePoliciesCommand(configID("#1")))}, m, slog.New(slog.DiscardHandler))
	s.Start()
	defer s.Close()
	id, created, err := s.LoadPolicies(t.Context(), "user:ann", configID("#1"), somePolicies(2))
	if err != nil || !created || id != configID("#1") {
		t.Fatalf("%v, %v, %v", id, created, err)
	}
	if c := m.Policies.Load().Find(id); c == nil || len(c.policies) != 2 {
		t.Errorf("stored %+v", c)
	}
}

func ref(version, name string) account.PolicyRef {
	return account.PolicyRef{Config: configID(version), Key: account.PolicyKey{Namespace: "ns", Name: name, Resource: "builds"}}
}

// TestResolveHere: a node resolves policies that it has without asking the leader.
func TestResolveHere(t *testing.T) {
	m := quietMeta()
	m.applyPolicies(t, loadCommand(policies("#1", 3)))
	m.applyPolicies(t, loadCommand(policies("#2", 2)))
	n := NewStore("n1", nil, m, slog.New(slog.DiscardHandler)) // without a node: it cannot ask
	refs := []account.PolicyRef{ref("#1", "p2"), ref("#2", "p1"), ref("#2", "p0"), ref("#1", "p2")}
	got, err := n.Resolve(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range refs {
		if want := somePolicies(3)[r.Key]; got[i] == nil || *got[i] != want {
			t.Errorf("%v is %+v; want %+v", r, got[i], want)
		}
	}
	if found, all := m.Policies.Load().resolve([]account.PolicyRef{ref("#3", "p0"), ref("#2", "p0"), ref("#2", "p2")}); all || found[0] != nil || found[1] == nil || found[2] != nil {
		t.Errorf("one of three is there: %v", found)
	}
	if found, all := m.Policies.Load().resolve(nil); !all || len(found) != 0 {
		t.Errorf("nothing: %v", found)
	}
}

// TestPoliciesReadWhileChanged is for the race detector: readers see a consistent table, and the
// policies that they found do not change.
func TestPoliciesReadWhileChanged(t *testing.T) {
	m := quietMeta()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				r := ref("#"+strconv.Itoa(i%50), "p"+strconv.Itoa(i%20))
				found, _ := m.Policies.Load().resolve([]account.PolicyRef{r})
				if found[0] != nil && *found[0] != somePolicies(20)[r.Key] {
					t.Errorf("%v is %+v", r, found[0])
				}
				m.Policies.Load().list("builds", "project:test", "#2", 10)
			}
		})
	}
	for i := range 500 {
		m.applyPolicies(t, loadCommand(policies("#"+strconv.Itoa(i%50), 20)))
		m.applyPolicies(t, purgePoliciesCommand(configID("#"+strconv.Itoa((i+7)%50))))
		if i%50 == 0 {
			machinetest.Snapshot(t, m)
		}
	}
	close(stop)
	wg.Wait()
}

// TestPoliciesToTheBound: policies up to the bound on bytes take about that much memory, and
// restore to the same snapshot.
func TestPoliciesToTheBound(t *testing.T) {
	testspeed.Full(t)
	m := quietMeta()
	if testing.Short() {
		m.maxPolicyBytes /= 16
	}
	before := machinetest.Heap()
	configs := 0
	for ; ; configs++ {
		r := m.applyPolicies(t, loadCommand(policies(fmt.Sprintf("#%05d", configs), 1000)))
		if full := (*account.PoliciesFullError)(nil); errors.As(r.err, &full) && full.What == "bytes" {
			break
		}
		if r.err != nil {
			t.Fatal(r.err)
		}
	}
	counted := float64(m.Policies.Load().Bytes)
	taken := float64(machinetest.Heap()-before) / counted
	written := machinetest.Snapshot(t, m)
	r := quietMeta()
	start := time.Now()
	if err := r.Restore(bytes.NewReader(written)); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d configs of 1000 policies: %.1f MB counted, %.2f times that in memory, %.1f MB of snapshot, restored in %v",
		configs, counted/1e6, taken, float64(len(written))/1e6, time.Since(start).Round(time.Millisecond))
	if taken > 1.5 {
		t.Errorf("they take %.2f times what is counted; at most 1.5", taken)
	}
	if !bytes.Equal(written, machinetest.Snapshot(t, r)) || r.Policies.Load().Bytes != m.Policies.Load().Bytes {
		t.Error("restored, they are others")
	}
	runtime.KeepAlive(m)
}

func BenchmarkResolve(b *testing.B) {
	m := quietMeta()
	for i := range 1000 {
		m.applyPolicies(b, loadCommand(policies(fmt.Sprintf("#%04d", i), 100)))
	}
	for _, count := range []int{1, 1000} {
		b.Run(strconv.Itoa(count), func(b *testing.B) {
			refs := make([]account.PolicyRef, count)
			for i := range refs {
				refs[i] = ref(fmt.Sprintf("#%04d", i), "p"+strconv.Itoa(i%100))
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, all := m.Policies.Load().resolve(refs); !all {
					b.Fatal("not found")
				}
			}
		})
	}
}
