package membership

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
)

// now is the time of changes in the tests.
const now = int64(1_000)

func stored(id string) *raftlogv1.StoredMember {
	return &raftlogv1.StoredMember{Id: id, Peer: id + ":7413", State: uint32(Active), Level: 1}
}

func joins(id string) *raftlogv1.StoredMember {
	m := stored(id)
	m.JoinId = []byte("join of " + id)
	return m
}

func placement(group uint32, voters ...string) *raftlogv1.StoredPlacement {
	return &raftlogv1.StoredPlacement{Group: group, Voters: voters}
}

func token(id string, uses uint32) *raftlogv1.StoredJoinToken {
	return &raftlogv1.StoredJoinToken{Id: id, Hash: []byte{1}, UsesLeft: uses, ExpiresUnixNanos: now + 100}
}

func seed(ms ...*raftlogv1.StoredMember) *raftlogv1.ChangeMembers {
	return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Seed{Seed: &raftlogv1.Membership{Members: ms, Level: 1, Replicas: 3}}}
}

func add(m *raftlogv1.StoredMember, token string) *raftlogv1.ChangeMembers {
	return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Add{Add: &raftlogv1.AddMember{Member: m, Token: token}}}
}

func changed(m *raftlogv1.StoredMember) *raftlogv1.ChangeMembers {
	return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Put{Put: m}}
}

func dropMember(id string) *raftlogv1.ChangeMembers {
	return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Drop{Drop: &raftlogv1.DropMember{Id: id}}}
}

func placed(list ...*raftlogv1.StoredPlacement) *raftlogv1.ChangeMembers {
	return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Place{Place: &raftlogv1.PutPlacements{Placements: list}}}
}

func raise(level uint32) *raftlogv1.ChangeMembers {
	return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Level{Level: &raftlogv1.RaiseLevel{Level: level}}}
}

func newToken(t *raftlogv1.StoredJoinToken) *raftlogv1.ChangeMembers {
	return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Token{Token: t}}
}

func dropToken(id string) *raftlogv1.ChangeMembers {
	return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_DropToken{DropToken: &raftlogv1.DropJoinToken{Id: id}}}
}

func authority(cert string) *raftlogv1.ChangeMembers {
	return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Authority{Authority: &raftlogv1.StoredAuthority{Certificate: []byte(cert), Key: []byte("secret")}}}
}

// try applies a change to the newest revision at a time, and requires that this
// modifies neither the table nor the change.
func try(t *testing.T, table *Table, c *raftlogv1.ChangeMembers, at int64) (*Table, error) {
	t.Helper()
	c = proto.CloneOf(c)
	c.Revision, c.AtUnixNanos = table.Revision(), at
	before, asked := proto.CloneOf(table.Proto()), proto.CloneOf(c)
	next, err := table.Apply(c)
	if !proto.Equal(before, table.Proto()) {
		t.Fatalf("%v changed the table that it was made from:\n%v\nwas\n%v", c, table.Proto(), before)
	}
	if !proto.Equal(asked, c) {
		t.Fatalf("%v became %v", asked, c)
	}
	if (next == nil) == (err == nil) {
		t.Fatalf("%v: table %v and error %v", c, next, err)
	}
	return next, err
}

// after returns the table after changes that must succeed.
func after(t *testing.T, table *Table, changes ...*raftlogv1.ChangeMembers) *Table {
	t.Helper()
	for _, c := range changes {
		next, err := try(t, table, c, now)
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		table = next
	}
	return table
}

// three returns the table of n1, n2 and n3, of which n1 and n2 hold group 1, with two tokens.
func three(t *testing.T) *Table {
	t.Helper()
	return after(t, New(nil), seed(stored("n3"), stored("n1"), stored("n2")), placed(placement(1, "n1", "n2"), placement(0, "n1")),
		newToken(token("two", 2)), newToken(token("one", 1)))
}

// TestApply checks what each kind of change does, and what it leaves alone.
func TestApply(t *testing.T) {
	zone := stored("n2")
	zone.Zone, zone.Version, zone.State, zone.Dead = "eu-1a", "v1.2.3", uint32(Draining), true
	for name, c := range map[string]struct {
		change *raftlogv1.ChangeMembers
		want   func(want *raftlogv1.Membership)
	}{
		"add": {add(joins("n0"), ""), func(w *raftlogv1.Membership) {
			w.Members = append([]*raftlogv1.StoredMember{joins("n0")}, w.Members...)
		}},
		"add by token": {add(joins("n4"), "two"), func(w *raftlogv1.Membership) { w.Members = append(w.Members, joins("n4")); w.Tokens[1].UsesLeft = 1 }},
		"last use":     {add(joins("n4"), "one"), func(w *raftlogv1.Membership) { w.Members = append(w.Members, joins("n4")); w.Tokens = w.Tokens[1:] }},
		"put":          {changed(zone), func(w *raftlogv1.Membership) { w.Members[1] = zone }},
		"drop": {dropMember("n3"), func(w *raftlogv1.Membership) {
			w.Members, w.Removed = w.Members[:2], []*raftlogv1.RemovedMember{{Id: "n3", AtUnixNanos: now}}
		}},
		"place anew":    {placed(placement(3, "n3")), func(w *raftlogv1.Membership) { w.Placements = append(w.Placements, placement(3, "n3")) }},
		"place another": {placed(placement(1, "n3", "n2")), func(w *raftlogv1.Membership) { w.Placements[1] = placement(1, "n3", "n2") }},
		"place none":    {placed(), func(*raftlogv1.Membership) {}},
		"level":         {raise(5), func(w *raftlogv1.Membership) { w.Level = 5 }},
		"token": {newToken(token("a", 9)), func(w *raftlogv1.Membership) {
			w.Tokens = append([]*raftlogv1.StoredJoinToken{token("a", 9)}, w.Tokens...)
		}},
		"drop token": {dropToken("one"), func(w *raftlogv1.Membership) { w.Tokens = w.Tokens[1:] }},
		"authority":  {authority("a"), func(w *raftlogv1.Membership) { w.Authority = authority("a").GetAuthority() }},
	} {
		t.Run(name, func(t *testing.T) {
			table := three(t)
			want := proto.CloneOf(table.Proto())
			want.Revision++
			c.want(want)
			if got := after(t, table, c.change); !proto.Equal(got.Proto(), want) {
				t.Errorf("got\n%v\nwant\n%v", got.Proto(), want)
			}
		})
	}
}

func TestSeed(t *testing.T) {
	c := seed(stored("n2"), stored("n1"))
	s := c.GetSeed()
	s.Placements = []*raftlogv1.StoredPlacement{placement(2, "n2"), placement(0, "n1", "n2")}
	s.Tokens = []*raftlogv1.StoredJoinToken{token("b", 1), token("a", 2)}
	s.Revision, s.Authority = 77, &raftlogv1.StoredAuthority{Certificate: []byte("c")}
	table := after(t, New(nil), c)
	want := &raftlogv1.Membership{
		Revision: 1, Level: 1, Replicas: 3, Members: []*raftlogv1.StoredMember{stored("n1"), stored("n2")}, Authority: s.Authority,
		Placements: []*raftlogv1.StoredPlacement{placement(0, "n1", "n2"), placement(2, "n2")},
		Tokens:     []*raftlogv1.StoredJoinToken{token("a", 2), token("b", 1)},
	}
	if !proto.Equal(table.Proto(), want) {
		t.Errorf("got\n%v\nwant\n%v", table.Proto(), want)
	}
	if New(nil).Seeded() || !table.Seeded() || table.Level() != 1 || table.Replicas() != 3 {
		t.Errorf("seeded %v, level %d, %d replicas", table.Seeded(), table.Level(), table.Replicas())
	}
}

// TestRefusals checks the kind and text of the refusal of every invalid change.
func TestRefusals(t *testing.T) {
	with := func(change func(*raftlogv1.StoredMember)) *raftlogv1.ChangeMembers {
		m := joins("n4")
		change(m)
		return add(m, "")
	}
	late := token("late", 3)
	late.Hash = nil
	long := token("long", 1)
	long.By = strings.Repeat("b", 1025)
	for name, c := range map[string]struct {
		change *raftlogv1.ChangeMembers
		kind   Kind
		want   string
	}{
		"seed again":      {seed(stored("n1")), Exists, "the cluster has a membership already"},
		"nothing":         {&raftlogv1.ChangeMembers{}, Invalid, "this version does not know the change"},
		"no name":         {with(func(m *raftlogv1.StoredMember) { m.Id = "" }), Invalid, "node: is empty; must be 1 to 128 of a-z A-Z 0-9 . _ -"},
		"no member":       {add(nil, ""), Invalid, "node: is empty; must be 1 to 128 of a-z A-Z 0-9 . _ -"},
		"name":            {with(func(m *raftlogv1.StoredMember) { m.Id = "n 4" }), Invalid, `node: "n 4" has ' ' at byte 1; only a-z A-Z 0-9 . _ - are allowed`},
		"no peer":         {with(func(m *raftlogv1.StoredMember) { m.Peer = "" }), Invalid, `peer address "": must be host:port that other nodes reach`},
		"port 0":          {with(func(m *raftlogv1.StoredMember) { m.Peer = "a:0" }), Invalid, `peer address "a:0": must be host:port that other nodes reach`},
		"long peer":       {with(func(m *raftlogv1.StoredMember) { m.Peer = strings.Repeat("h", 300) + ":1" }), Invalid, `peer address "` + strings.Repeat("h", 80) + `...": must be at most 261 bytes of UTF-8`},
		"long grpc":       {with(func(m *raftlogv1.StoredMember) { m.Grpc = strings.Repeat("h", 262) }), Invalid, `gRPC address "` + strings.Repeat("h", 80) + `...": must be at most 261 bytes of UTF-8`},
		"http":            {with(func(m *raftlogv1.StoredMember) { m.Http = "\xff" }), Invalid, `HTTP address "\xff": must be at most 261 bytes of UTF-8`},
		"zone":            {with(func(m *raftlogv1.StoredMember) { m.Zone = strings.Repeat("z", 129) }), Invalid, `zone "` + strings.Repeat("z", 80) + `...": must be at most 128 bytes of UTF-8`},
		"version":         {with(func(m *raftlogv1.StoredMember) { m.Version = "\xff" }), Invalid, `version "\xff": must be at most 128 bytes of UTF-8`},
		"join id":         {with(func(m *raftlogv1.StoredMember) { m.JoinId = make([]byte, 65) }), Invalid, "join id: 65 bytes; must be at most 64"},
		"trusts":          {with(func(m *raftlogv1.StoredMember) { m.Trusts = make([]string, 65) }), Invalid, "trusts: 65 authorities; must be at most 64"},
		"trust":           {with(func(m *raftlogv1.StoredMember) { m.Trusts = []string{"a", "\xff"} }), Invalid, `fingerprint "\xff": must be at most 128 bytes of UTF-8`},
		"signer":          {with(func(m *raftlogv1.StoredMember) { m.SignedBy = strings.Repeat("f", 129) }), Invalid, `fingerprint "` + strings.Repeat("f", 80) + `...": must be at most 128 bytes of UTF-8`},
		"no state":        {with(func(m *raftlogv1.StoredMember) { m.State = 0 }), Invalid, "state 0: must be 1 to 3"},
		"state":           {with(func(m *raftlogv1.StoredMember) { m.State = 4 }), Invalid, "state 4: must be 1 to 3"},
		"state by bytes":  {with(func(m *raftlogv1.StoredMember) { m.State = 257 }), Invalid, "state 257: must be 1 to 3"},
		"same name":       {add(joins("n1"), ""), Exists, `node "n1": a node of that name is a member already; choose another name, or remove that one first`},
		"no join id":      {add(stored("n1"), ""), Exists, `node "n1": a node of that name is a member already; choose another name, or remove that one first`},
		"same peer":       {with(func(m *raftlogv1.StoredMember) { m.Peer = "n2:7413" }), Exists, `peer address n2:7413: node "n2" has it`},
		"no such token":   {add(joins("n4"), "three"), Denied, "join token three: unknown to this cluster: used up, revoked, or of another cluster"},
		"put a stranger":  {changed(stored("n4")), Missing, `unknown node "n4"`},
		"put nonsense":    {changed(&raftlogv1.StoredMember{Id: "n1"}), Invalid, `peer address "": must be host:port that other nodes reach`},
		"drop a stranger": {dropMember("n4"), Missing, `unknown node "n4"`},
		"drop a voter":    {dropMember("n2"), Forbidden, `node "n2": still holds replicas`},
		"no voters":       {placed(placement(1)), Invalid, "group 1: no voters"},
		"no placement":    {placed(nil), Invalid, "group 0: no voters"},
		"group":           {placed(placement(257, "n1")), Invalid, "group 257: must be 0 to 256"},
		"strange voter":   {placed(placement(1, "n1"), placement(2, "n4")), Invalid, `group 2: node "n4" is not a member`},
		"voter twice":     {placed(placement(1, "n1", "n1")), Invalid, `group 1: duplicate node "n1"`},
		"removed voter":   {placed(&raftlogv1.StoredPlacement{Voters: []string{"n1"}, Removed: []string{"n1"}}), Invalid, `group 0: duplicate node "n1"`},
		"same level":      {raise(1), Invalid, "feature level 1: the cluster has 1 already"},
		"lower level":     {raise(0), Invalid, "feature level 0: the cluster has 1 already"},
		"empty token":     {newToken(nil), Invalid, "join token: id, hash and uses must be set"},
		"token hash":      {newToken(late), Invalid, "join token: id, hash and uses must be set"},
		"token uses":      {newToken(token("none", 0)), Invalid, "join token: id, hash and uses must be set"},
		"token twice":     {newToken(token("two", 1)), Exists, "join token two: already exists"},
		"token maker":     {newToken(long), Invalid, "join token: maker of 1025 bytes; must be at most 1024"},
		"no token":        {dropToken("three"), Missing, `unknown join token "three"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := try(t, three(t), c.change, now)
			checkRefusal(t, err, c.kind, c.want)
		})
	}
}

func checkRefusal(t *testing.T, err error, kind Kind, want string) {
	t.Helper()
	var refused *Error
	if !errors.As(err, &refused) || refused.Kind != kind || err.Error() != want {
		t.Fatalf("got  %#v\nwant %d %s", err, kind, want)
	}
	if got := status.Convert(err); got.Code() != kind.Code() || got.Message() != want {
		t.Errorf("as gRPC: %v", got)
	}
}

func TestSeedRefusals(t *testing.T) {
	many := make([]*raftlogv1.StoredMember, MaxMembers+1)
	strange := seed(stored("n1"))
	strange.GetSeed().Placements = []*raftlogv1.StoredPlacement{placement(0, "n2")}
	used := seed(stored("n1"))
	used.GetSeed().Tokens = []*raftlogv1.StoredJoinToken{token("a", 0)}
	for name, c := range map[string]struct {
		change *raftlogv1.ChangeMembers
		kind   Kind
		want   string
	}{
		"empty":     {seed(), Invalid, "members: 0; must be 1 to 256"},
		"many":      {seed(many...), Invalid, "members: 257; must be 1 to 256"},
		"nonsense":  {seed(stored("n1"), &raftlogv1.StoredMember{Id: "n2"}), Invalid, `peer address "": must be host:port that other nodes reach`},
		"twice":     {seed(stored("n1"), stored("n2"), stored("n1")), Invalid, `node "n1": is a duplicate`},
		"placement": {strange, Invalid, `group 0: node "n2" is not a member`},
		"token":     {used, Invalid, "join token: id, hash and uses must be set"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := try(t, New(nil), c.change, now)
			checkRefusal(t, err, c.kind, c.want)
		})
	}
}

const unseeded = "the cluster has no membership yet"

// TestNothingBeforeSeed checks that until there is a membership, only the change that creates it is
// accepted.
func TestNothingBeforeSeed(t *testing.T) {
	for _, c := range []*raftlogv1.ChangeMembers{
		add(joins("n1"), ""), changed(stored("n1")), dropMember("n1"), placed(placement(0, "n1")), raise(2),
		newToken(token("a", 1)), dropToken("a"), authority("a"),
		{},
	} {
		_, err := try(t, New(nil), c, now)
		checkRefusal(t, err, Forbidden, unseeded)
	}
}

// TestStale checks that a change based on another revision does nothing, whatever it is.
func TestStale(t *testing.T) {
	table := three(t)
	for _, revision := range []uint64{0, table.Revision() - 1, table.Revision() + 1, 1 << 63} {
		for _, c := range []*raftlogv1.ChangeMembers{seed(stored("n1")), add(joins("n4"), "two"), dropMember("n3"), raise(2), {}} {
			c.Revision = revision
			if next, err := table.Apply(c); next != nil || !errors.Is(err, ErrStale) {
				t.Errorf("from revision %d: %v, %v", revision, next, err)
			}
		}
	}
	if _, err := table.Apply(nil); !errors.Is(err, ErrStale) {
		t.Errorf("no change: %v", err)
	}
}

func TestKinds(t *testing.T) {
	for k, want := range map[Kind]codes.Code{
		Invalid: codes.InvalidArgument, Denied: codes.PermissionDenied, Exists: codes.AlreadyExists,
		Missing: codes.NotFound, Forbidden: codes.FailedPrecondition, Full: codes.ResourceExhausted, Later: codes.Aborted,
	} {
		if k.Code() != want || KindOf(want) != k {
			t.Errorf("%d: code %v, which is of kind %d", k, k.Code(), KindOf(k.Code()))
		}
	}
	if KindOf(codes.Internal) != Forbidden {
		t.Error("a code of no kind")
	}
}

// TestNameOnItsWayOut checks that a join under the name of a leaving node is refused as Later, and
// succeeds once the name is free.
func TestNameOnItsWayOut(t *testing.T) {
	m := stored("n1")
	m.State = uint32(Leaving)
	m.JoinId = []byte("n1")
	table, err := try(t, three(t), changed(m), now)
	if err != nil {
		t.Fatal(err)
	}
	_, err = try(t, table, add(joins("n1"), ""), now)
	checkRefusal(t, err, Later, `node "n1": a node of this name is leaving the cluster; the name is free when it has left`)
}

// TestHolds checks that a member named by a placement, as voter or as removed, cannot be dropped.
func TestHolds(t *testing.T) {
	table := after(t, three(t), placed(&raftlogv1.StoredPlacement{Group: 1, Voters: []string{"n2"}, Removed: []string{"n3"}}))
	for id, want := range map[quota.NodeID]bool{"n1": true, "n2": true, "n3": true, "n4": false} {
		if table.Holds(id) != want {
			t.Errorf("%s holds: %v", id, !want)
		}
	}
	_, err := try(t, table, dropMember("n3"), now)
	checkRefusal(t, err, Forbidden, `node "n3": still holds replicas`)
	table = after(t, table, placed(placement(1, "n2")), dropMember("n3"))
	meta, each := table.Placement(raftgroup.MetaGroup), table.Ranges(2)
	if len(meta.Voters) != 1 || len(each) != 2 || each[0].Voters[0] != "n2" || len(each[1].Voters) != 0 {
		t.Errorf("placements %v, %v", meta, each)
	}
}

// TestJoinedBefore checks that the members of the first membership count as joined before any time.
func TestJoinedBefore(t *testing.T) {
	at := time.Unix(1_790_000_000, 0)
	table := New(&raftlogv1.Membership{Members: []*raftlogv1.StoredMember{
		{Id: "a"}, {Id: "b"}, {Id: "c", JoinedUnixNanos: at.UnixNano()}, {Id: "d", JoinedUnixNanos: at.Add(time.Second).UnixNano()},
	}})
	for before, want := range map[time.Duration]int{0: 2, 1: 3, time.Second: 3, 2 * time.Second: 4} {
		if got := table.JoinedBefore(at.Add(before)); got != want {
			t.Errorf("%d had joined %v later, want %d", got, before, want)
		}
	}
}
