package shard

import (
	"slices"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// group is a model of one Raft group: its configuration, and the nodes that have its data.
type group struct {
	voters, nonvoters []quota.NodeID
	leader            quota.NodeID
	data              map[quota.NodeID]bool
}

// cluster drives groups to the wanted placement while nodes change. The executor of steps has no memory: it needs
// nothing that a crash loses.
type cluster struct {
	*world
	down   map[quota.NodeID]bool
	groups []*group
	meta   *group
	asked  []quota.NodeID // wanted voters of the meta group
}

func newCluster(t *testing.T, seed uint64) *cluster {
	c := &cluster{world: newWorld(t, seed), down: map[quota.NodeID]bool{}}
	for _, p := range c.want {
		c.groups = append(c.groups, bootstrap(p.Voters))
	}
	c.asked = PlaceMeta(c.nodes, 3, nil)
	c.meta = bootstrap(c.asked)
	c.introduce()
	c.mayGo = func(n quota.NodeID) bool {
		return !slices.ContainsFunc(slices.Concat(c.groups, []*group{c.meta}), func(g *group) bool {
			return slices.Contains(g.voters, n) || slices.Contains(g.nonvoters, n)
		})
	}
	return c
}

func bootstrap(voters []quota.NodeID) *group {
	g := &group{voters: slices.Clone(voters), leader: voters[0], data: map[quota.NodeID]bool{}}
	for _, v := range voters {
		g.data[v] = true
	}
	return g
}

// introduce makes every new node follow the meta group.
func (c *cluster) introduce() {
	for _, n := range c.nodes {
		if !slices.Contains(c.meta.voters, n.ID) && !slices.Contains(c.meta.nonvoters, n.ID) && n.State != Leaving {
			c.meta.nonvoters = append(c.meta.nonvoters, n.ID)
			c.meta.data[n.ID] = true
		}
	}
}

// alive reports whether a node runs; nodes that have left do not.
func (c *cluster) alive(n quota.NodeID) bool {
	_, listed := c.state(n)
	return listed && !c.down[n]
}

func (c *cluster) live(nodes []quota.NodeID) (n int) {
	for _, id := range nodes {
		if c.alive(id) {
			n++
		}
	}
	return n
}

func (c *cluster) quorate(g *group) bool { return c.live(g.voters) >= len(g.voters)/2+1 }

// actual returns the state as the group's leader reports it; Raft elects one if it can.
func (c *cluster) actual(g *group) Actual {
	a := Actual{
		Voters: slices.Clone(g.voters), Nonvoters: slices.Clone(g.nonvoters), Leader: g.leader,
		Ready: map[quota.NodeID]bool{}, Alive: map[quota.NodeID]bool{},
	}
	if !c.alive(g.leader) || !slices.Contains(g.voters, g.leader) {
		a.Leader, g.leader = "", ""
		if c.quorate(g) {
			for _, v := range g.voters {
				if c.alive(v) && g.data[v] {
					a.Leader, g.leader = v, v
				}
			}
		}
	}
	for _, n := range c.nodes {
		a.Alive[n.ID] = c.alive(n.ID)
		a.Ready[n.ID] = c.alive(n.ID) && g.data[n.ID]
	}
	return a
}

// step executes the next step of a group and returns it.
func (c *cluster) step(g *group, want *Placement, meta bool) Step {
	c.t.Helper()
	is := c.actual(g)
	s := Next(*want, meta, is)
	before, had := len(g.voters), c.quorate(g)
	voter, nonvoter := slices.Contains(g.voters, s.Node), slices.Contains(g.nonvoters, s.Node)
	legal := true
	switch s.Do {
	case Done:
		legal = sameSet(g.voters, want.Voters) && len(want.Removed) == 0 && (meta && c.followed() || len(g.nonvoters) == 0)
	case Wait:
		legal = s.Why != ""
	case AddNonvoter:
		legal = !voter && !nonvoter && c.alive(s.Node) && slices.Contains(want.Voters, s.Node)
		g.nonvoters = append(g.nonvoters, s.Node)
	case Promote:
		legal = nonvoter && is.Ready[s.Node] && slices.Contains(want.Voters, s.Node) && before <= len(want.Voters)
		g.nonvoters = remove(g.nonvoters, s.Node)
		g.voters = append(g.voters, s.Node)
	case Transfer:
		legal = voter && is.Ready[s.Node] && s.Node != g.leader && !slices.Contains(want.Voters, g.leader) && slices.Contains(want.Voters, s.Node)
		g.leader = s.Node
	case Demote, Remove:
		legal = (voter || nonvoter && s.Do == Remove) && s.Node != g.leader && !slices.Contains(want.Voters, s.Node) && (s.Do == Remove || meta)
		g.voters, g.nonvoters = remove(g.voters, s.Node), remove(g.nonvoters, s.Node)
		if s.Do == Demote {
			g.nonvoters = append(g.nonvoters, s.Node)
		}
	case Forget:
		legal = !voter && !nonvoter && slices.Contains(want.Removed, s.Node)
		*want = want.Forget(s.Node)
		delete(g.data, s.Node)
	}
	if n := len(g.voters); !legal || n < min(before, len(want.Voters)) || n > max(before, len(want.Voters)+1) || n > before+1 {
		c.t.Fatalf("step %v: want %v, was %v, is %v", s, want, is, g.voters)
	}
	if s.Do != Wait && s.Do != Done && (!had || !c.quorate(g)) {
		c.t.Fatalf("step %v: live majority before: %v, after: %v; want %v, was %v, down %v", s, had, c.quorate(g), want, is, c.down)
	}
	return s
}

// followed reports whether every remaining node is in the meta group.
func (c *cluster) followed() bool {
	return !slices.ContainsFunc(c.nodes, func(n Node) bool {
		return n.State != Leaving && !slices.Contains(c.meta.voters, n.ID) && !slices.Contains(c.meta.nonvoters, n.ID)
	})
}

func remove(nodes []quota.NodeID, n quota.NodeID) []quota.NodeID {
	return slices.DeleteFunc(slices.Clone(nodes), func(o quota.NodeID) bool { return o == n })
}

func sameSet(a, b []quota.NodeID) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// happen changes the cluster and the wanted placement; nodes also fail and return on their own. Nodes leave the list
// only when they are in no group.
func (c *cluster) happen() {
	c.t.Helper()
	c.change()
	for _, n := range c.nodes {
		switch {
		case n.State == Dead:
			c.down[n.ID] = true
		case c.rng.IntN(8) == 0:
			c.down[n.ID] = true
		case c.rng.IntN(3) == 0:
			delete(c.down, n.ID)
		}
	}
	c.place()
	c.asked = PlaceMeta(c.nodes, []int{1, 3, 5}[c.rng.IntN(3)], c.asked)
	c.introduce()
}

// removed returns the nodes that have to leave the meta group: those that leave the cluster.
func (c *cluster) removed() (out []quota.NodeID) {
	for _, n := range slices.Concat(c.meta.voters, c.meta.nonvoters) {
		if s, _ := c.state(n); s == Leaving {
			out = append(out, n)
		}
	}
	return out
}

// work executes some steps of random groups, while data is replicated.
func (c *cluster) work(steps int) {
	c.t.Helper()
	for range steps {
		if c.rng.IntN(8) == 0 {
			want := Placement{c.asked, c.removed()}
			c.step(c.meta, &want, true)
			continue
		}
		r := c.rng.IntN(len(c.groups))
		c.step(c.groups[r], &c.want[r], false)
		c.catchUp(c.groups[r], 2)
	}
}

// catchUp makes one in oneIn of the live nodes of a group ready.
func (c *cluster) catchUp(g *group, oneIn int) {
	for _, n := range slices.Concat(g.voters, g.nonvoters) {
		if c.quorate(g) && c.alive(n) && c.rng.IntN(oneIn) == 0 {
			g.data[n] = true
		}
	}
}

// settle revives all wanted nodes and checks that every group reaches its placement in a bounded number of steps.
func (c *cluster) settle() {
	c.t.Helper()
	clear(c.down)
	for i := range c.nodes {
		if c.nodes[i].State == Dead {
			c.nodes[i].State = Active
		}
	}
	c.place()
	c.asked = PlaceMeta(c.nodes, 3, c.asked)
	c.introduce()
	for r, g := range c.groups {
		c.finish(g, &c.want[r], false)
	}
	c.finish(c.meta, &Placement{c.asked, c.removed()}, true)
	c.place() // reached, and no removed nodes left: nothing changes
}

func (c *cluster) finish(g *group, want *Placement, meta bool) {
	c.t.Helper()
	bound := 4*(len(want.Voters)+len(want.Removed)+len(g.voters)+len(g.nonvoters)) + 1
	c.catchUp(g, 1)
	foretold := Steps(*want, meta, c.actual(g))
	var steps []Step
	for len(steps) < bound {
		s := c.step(g, want, meta)
		if s.Do == Done {
			if !slices.Equal(steps, foretold) {
				c.t.Fatalf("want %v: foretold %v, taken %v", want, foretold, steps)
			}
			return
		}
		steps = append(steps, s)
		c.catchUp(g, 1)
	}
	c.t.Fatalf("not reached in %d steps: want %v, is %v, nodes %v, steps %v", bound, want, g, c.nodes, steps)
}

// play plays one random history.
func play(t *testing.T, seed uint64) {
	t.Helper()
	c := newCluster(t, seed)
	for range 6 {
		c.happen()
		c.work(c.rng.IntN(6 * len(c.groups)))
	}
	c.settle()
}

// TestNextProperties plays random histories of random clusters.
func TestNextProperties(t *testing.T) {
	for seed := range uint64(200) {
		if play(t, seed); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// FuzzNext searches for further histories.
func FuzzNext(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { play(t, seed) })
}
