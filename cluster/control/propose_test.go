package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/peercall"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
	"github.com/quorate/quorate/internal/snapshotio"
)

// opposition is a change that a call makes, and one of another operator that a repetition of the call would undo.
type opposition struct {
	what   string
	before *raftlogv1.MetaCommand
	call   func(context.Context, *Store) error
	other  *raftlogv1.MetaCommand // of another operator, after the call was carried out
	stays  func(*Machine) bool
}

func oppositions() []opposition {
	k, id := testKey("test", "a", "k"), configID("#1")
	override := func(burst int64, at quota.Time) quota.Override { return quota.Override{Key: k, Burst: burst, At: at} }
	binding := rbac.Binding{Identity: "user:ann", Role: "admin", Scope: rbac.Everywhere}
	token := rbac.Token{ID: "i", Name: "ci", Hash: [32]byte{9}}
	unbind := securityCommand(&raftlogv1.ChangeSecurity{Change: &raftlogv1.ChangeSecurity_DeleteBinding{DeleteBinding: rbac.EncodeBinding(&binding)}})
	revoke := securityCommand(&raftlogv1.ChangeSecurity{Change: &raftlogv1.ChangeSecurity_RevokeToken{RevokeToken: token.ID}})
	return []opposition{
		{
			"an override is set; another is set", nil,
			func(ctx context.Context, s *Store) error {
				return s.SetOverrides(ctx, []quota.Override{override(10, 0)})
			},
			setOverridesCommand(override(20, 6)), func(m *Machine) bool { return m.Override(k).Burst == 20 },
		},
		{
			"an override is deleted; another is set", setOverridesCommand(override(10, 1)),
			func(ctx context.Context, s *Store) error {
				_, err := s.DeleteOverrides(ctx, []quota.Key{k})
				return err
			},
			setOverridesCommand(override(20, 6)), func(m *Machine) bool { return m.Override(k) != nil },
		},
		{
			"policies are loaded; they are purged", nil,
			func(ctx context.Context, s *Store) error {
				_, _, err := s.LoadPolicies(ctx, "x", id, somePolicies(1))
				return err
			},
			purgePoliciesCommand(id), func(m *Machine) bool { return m.Policies.Load().Find(id) == nil },
		},
		{
			"policies are purged; others are loaded", loadCommand(policies("#1", 1)),
			func(ctx context.Context, s *Store) error { _, err := s.PurgePolicies(ctx, id); return err },
			loadCommand(policies("#1", 2)), func(m *Machine) bool { return m.Policies.Load().Find(id) != nil },
		},
		{
			"a role is given; it is taken away", nil,
			func(ctx context.Context, s *Store) error { _, err := s.SetBinding(ctx, binding); return err },
			unbind, func(m *Machine) bool { return len(m.Security.table.Load().Bindings()) == 0 },
		},
		{
			"a role is taken away; it is given", setBindingCommand(&binding),
			func(ctx context.Context, s *Store) error { _, err := s.DeleteBinding(ctx, binding); return err },
			setBindingCommand(&binding), func(m *Machine) bool { return len(m.Security.table.Load().Bindings()) == 1 },
		},
		{
			"a token is created; it is revoked", nil,
			func(ctx context.Context, s *Store) error { return s.AddToken(ctx, token) },
			revoke, func(m *Machine) bool { return len(m.Security.table.Load().Tokens()) == 0 },
		},
	}
}

// machine returns one on which the call can be made.
func (o *opposition) machine(t *testing.T) *Machine {
	m := quietMeta()
	m.take(t, change("one", 0, testLimit("a", 100, quota.Soft)))
	if o.before != nil {
		m.Apply(1, 1, snapshotio.Encode(o.before))
	}
	return m
}

// TestLostAnswerUndoesNothing checks that a change whose answer was lost does not undo what another
// operator changed after it.
func TestLostAnswerUndoesNothing(t *testing.T) {
	for _, c := range oppositions() {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := c.machine(t)
				n := &losing{m: m, meanwhile: func() { m.Apply(1, 1, snapshotio.Encode(c.other)) }}
				err := c.call(t.Context(), NewStore("n1", n, m, slog.New(slog.DiscardHandler)))
				if unknown := (*quota.UnknownOutcomeError)(nil); !errors.As(err, &unknown) {
					t.Errorf("%v; want an UnknownOutcomeError", err)
				}
				if !c.stays(m) {
					t.Error("the other operator's change is undone")
				}
			})
		})
	}
}

// TestSlowTryUndoesNothing checks that the first try of a change, which arrives after its repetition, does not
// undo what another operator changed after that.
func TestSlowTryUndoesNothing(t *testing.T) {
	for _, c := range oppositions() {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := c.machine(t)
				n := &dropping{losing: losing{m: m}}
				if err := c.call(t.Context(), NewStore("n1", n, m, slog.New(slog.DiscardHandler))); err != nil {
					t.Error(err)
				}
				m.Apply(1, 1, snapshotio.Encode(c.other))
				if !c.stays(m) {
					t.Error("the other operator's change is not made")
				}
				m.Apply(1, 1, n.first)
				if !c.stays(m) {
					t.Error("the other operator's change is undone")
				}
			})
		})
	}
}

// fencing is a node that leads the meta group. The fence of another change comes before the first proposal.
type fencing struct {
	losing
	fenced bool
}

func (n *fencing) MetaGroup() Group { return n }

func (n *fencing) Apply(_ context.Context, data []byte) (any, error) {
	if !n.fenced {
		n.fenced = true
		fence := setOverridesCommand()
		fence.Fence = new(uint64(7))
		n.m.Apply(1, 1, snapshotio.Encode(fence))
	}
	return n.m.Apply(1, 1, data), nil
}

// forwarding is a node that calls the leader.
type forwarding struct {
	fencing
	leader peercall.Table
}

func (n *forwarding) MetaGroup() Group { return nil }

func (n *forwarding) MetaLeader() quota.NodeID { return "n2" }

func (n *forwarding) Call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error) {
	out, err := n.leader.Answer(ctx, "n1", c)
	if err != nil {
		err = &transport.RemoteError{Peer: to, Text: err.Error()}
	}
	return out, err
}

// TestFencedTryIsRepeated checks that a change is made though another one had put a fence before its first try.
func TestFencedTryIsRepeated(t *testing.T) {
	for _, c := range oppositions() {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := c.machine(t)
				if err := c.call(t.Context(), NewStore("n1", &fencing{losing: losing{m: m}}, m, slog.New(slog.DiscardHandler))); err != nil || c.stays(m) {
					t.Errorf("by the leader: %v", err)
				}
				m = c.machine(t)
				n := &forwarding{fencing{losing: losing{m: m}}, peercall.Table{}}
				NewStore("n2", &n.fencing, m, slog.New(slog.DiscardHandler)).AddCalls(n.leader)
				if err := c.call(t.Context(), NewStore("n1", n, m, slog.New(slog.DiscardHandler))); err != nil || c.stays(m) {
					t.Errorf("through another node: %v", err)
				}
			})
		})
	}
}

// dropping is a node that leads the meta group and loses the first proposal.
type dropping struct {
	losing
	first []byte // what was lost
}

func (n *dropping) MetaGroup() Group { return n }

func (n *dropping) Apply(_ context.Context, data []byte) (any, error) {
	if n.first == nil {
		n.first = data
		return nil, raftgroup.ErrUncertain
	}
	return n.m.Apply(1, 1, data), nil
}

// TestLostProposalIsRepeated checks that a change is made though its first proposal was lost, as it may
// be when a leader dies.
func TestLostProposalIsRepeated(t *testing.T) {
	m := quietMeta()
	m.take(t, change("one", 0, testLimit("a", 100, quota.Soft)))
	k, binding := testKey("test", "a", "k"), rbac.Binding{Identity: "user:ann", Role: "admin", Scope: rbac.Everywhere}
	store := func() *Store {
		return NewStore("n1", &dropping{losing: losing{m: m}}, m, slog.New(slog.DiscardHandler))
	}
	if err := store().SetOverrides(t.Context(), []quota.Override{{Key: k, Burst: 10}}); err != nil || m.Override(k) == nil {
		t.Errorf("set: %v", err)
	}
	if deleted, err := store().DeleteOverrides(t.Context(), []quota.Key{k}); deleted != 1 || err != nil || m.Override(k) != nil {
		t.Errorf("deleted: %d, %v", deleted, err)
	}
	if _, created, err := store().LoadPolicies(t.Context(), "x", configID("#1"), somePolicies(1)); !created || err != nil {
		t.Errorf("loaded: %v, %v", created, err)
	}
	if was, err := store().PurgePolicies(t.Context(), configID("#1")); !was || err != nil {
		t.Errorf("purged: %v, %v", was, err)
	}
	if changed, err := store().SetBinding(t.Context(), binding); !changed || err != nil {
		t.Errorf("bound: %v, %v", changed, err)
	}
	if was, err := store().DeleteBinding(t.Context(), binding); !was || err != nil {
		t.Errorf("unbound: %v, %v", was, err)
	}
}

// TestChangedThoughAnswerLost checks the result of a call whose answer was lost and whose change arrived.
func TestChangedThoughAnswerLost(t *testing.T) {
	m := quietMeta()
	m.take(t, change("one", 0, testLimit("a", 100, quota.Soft)))
	k := testKey("test", "a", "k")
	store := func() *Store { return NewStore("n1", &losing{m: m}, m, slog.New(slog.DiscardHandler)) } // loses the first answer
	if err := store().SetOverrides(t.Context(), []quota.Override{{Key: k, Burst: 10}}); err != nil || m.overrides.Load().revision != 1 {
		t.Errorf("set: %v, and %d changes", err, m.overrides.Load().revision)
	}
	if deleted, err := store().DeleteOverrides(t.Context(), []quota.Key{k}); deleted != 1 || err != nil {
		t.Errorf("deleted: %d, %v", deleted, err)
	}
	m.applyPolicies(t, loadCommand(policies("#1", 1)))
	if was, err := store().PurgePolicies(t.Context(), configID("#1")); !was || err != nil {
		t.Errorf("purged: %v, %v", was, err)
	}
}

func TestUnapplied(t *testing.T) {
	remote := func(err error) error { return &transport.RemoteError{Peer: "n2", Text: err.Error()} }
	for err, want := range map[error]bool{
		errNoMetaLeader:                                     true,
		transport.ErrUnreachable:                            true,
		raftgroup.ErrTransferring:                           true,
		remote(fmt.Errorf("%w: x", raftgroup.ErrNotLeader)): true,
		remote(raftgroup.ErrOverloaded):                     true,
		remote(errFenced):                                   true,
		remote(fmt.Errorf("%w: x", raftgroup.ErrUncertain)): false,
		remote(errors.New("the answer is too large")):       false,
		fmt.Errorf("%w: shutdown", raftgroup.ErrUncertain):  false,
		transport.ErrLost:                                   false,
		context.DeadlineExceeded:                            false,
	} {
		if unapplied(err) != want {
			t.Errorf("%v: %v; want %v", err, !want, want)
		}
	}
}

// TestLargestProposal checks that a command of the largest size fits into an entry of the log with any fence.
func TestLargestProposal(t *testing.T) {
	cmd := func(size int) *raftlogv1.MetaCommand {
		return &raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_SetLimits{SetLimits: &raftlogv1.SetLimits{Comment: strings.Repeat("x", size)}}}
	}
	size := raftgroup.MaxEntry
	for proto.Size(cmd(size)) > raftgroup.MaxEntry-fenceSize {
		size--
	}
	p, err := newProposal(cmd(size))
	if err != nil {
		t.Fatal(err)
	}
	if p.command.Fence = proto.Uint64(math.MaxUint64); proto.Size(p.command) != raftgroup.MaxEntry {
		t.Errorf("%d bytes with the highest fence; an entry may have %d", proto.Size(p.command), raftgroup.MaxEntry)
	}
	if _, err := newProposal(cmd(size + 1)); err == nil {
		t.Error("a command that is a byte too large: no error")
	}
}
