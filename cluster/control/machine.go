package control

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
	"github.com/quorate/quorate/internal/snapshotio"
)

// Machine is the state of the meta group: the limits, their history, the overrides, the policy
// configs, access, and the membership. Apply depends only on the entry and this state, so that all
// replicas hold the same.
type Machine struct {
	mu      sync.Mutex // guards limits and history
	limits  *quota.Limits
	history limitVersions

	overrides    atomic.Pointer[overrideTable] // replaced only by Apply and Restore
	maxOverrides int

	Policies       atomic.Pointer[policyTable] // replaced only by Apply and Restore
	maxConfigs     int
	maxPolicyBytes int64

	Security *security

	// Callbacks, called after the change and without a lock held.
	changed    func(*quota.Limits)     // gets every new set of limits
	overridden func(keys []quota.Key)  // gets the keys whose Override result changed; nil means all
	Reloaded   func()                  // the policy configs changed
	Regrouped  func(*membership.Table) // the membership changed

	Members atomic.Pointer[membership.Table] // replaced only by Apply and Restore

	fence atomic.Uint64 // highest of the entries so far; changed only by Apply and Restore
}

// limitsResult is the result of applying a SetLimits.
type limitsResult struct {
	version quota.Version // created by the entry, or else the current version
	changed bool
	err     error
}

// NewMachine returns an empty machine. It calls changed with every new set of limits, and
// overridden with the keys whose overrides changed (nil: all), both after the change and without a
// lock held.
func NewMachine(changed func(*quota.Limits), overridden func(keys []quota.Key)) *Machine {
	empty, _ := quota.NewLimits(0, nil)
	m := &Machine{
		limits: empty, maxOverrides: quota.MaxOverrides, maxConfigs: maxConfigs, maxPolicyBytes: MaxPolicyBytes,
		Security: &security{Changed: func() {}},
		changed:  changed, overridden: overridden, Reloaded: func() {}, Regrouped: func(*membership.Table) {},
	}
	m.overrides.Store(&overrideTable{})
	m.Policies.Store(&policyTable{})
	m.Security.table.Store(&rbac.Table{})
	m.Members.Store(membership.New(nil))
	return m
}

// Current returns the current limits.
func (m *Machine) Current() *quota.Limits {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.limits
}

// versions returns at most count versions with numbers below the given one, newest first; 0 means
// no bound.
func (m *Machine) versions(before uint64, count int) []quota.Version {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.history.before(before, count)
}

// version returns one version of the history, or an UnknownVersionError.
func (m *Machine) version(number uint64) (*pastLimits, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.history.find(number)
}

// Apply implements raftgroup.StateMachine.
func (m *Machine) Apply(_, _ uint64, data []byte) any {
	var cmd raftlogv1.MetaCommand
	if err := proto.Unmarshal(data, &cmd); err != nil {
		return limitsResult{err: fmt.Errorf("meta command: %w", err)}
	}
	if cmd.Fence != nil {
		if cmd.GetFence() < m.fence.Load() {
			return errFenced
		}
		m.fence.Store(cmd.GetFence())
	}
	switch c := cmd.Change.(type) {
	case *raftlogv1.MetaCommand_SetLimits:
		return m.setLimits(c.SetLimits)
	case *raftlogv1.MetaCommand_SetOverrides:
		return m.setOverrides(c.SetOverrides)
	case *raftlogv1.MetaCommand_DeleteOverrides:
		return m.deleteOverrides(c.DeleteOverrides)
	case *raftlogv1.MetaCommand_PurgeOverrides:
		return m.editOverrides(m.overrides.Load().expired(quota.Time(c.PurgeOverrides.GetBeforeUnixNanos())))
	case *raftlogv1.MetaCommand_LoadPolicies:
		return m.loadPolicies(c.LoadPolicies)
	case *raftlogv1.MetaCommand_PurgePolicies:
		return m.purgePolicies(c.PurgePolicies)
	case *raftlogv1.MetaCommand_ChangeSecurity:
		return m.Security.apply(c.ChangeSecurity)
	case *raftlogv1.MetaCommand_ChangeMembers:
		return m.changeMembers(c.ChangeMembers)
	case *raftlogv1.MetaCommand_TermStart, *raftlogv1.MetaCommand_AdvanceCommit:
		return nil
	}
	return errUnknownCommand
}

// errUnknownCommand is the result of an entry whose kind this version does not know. The cluster's
// feature level keeps such entries out of the log.
var errUnknownCommand = errors.New("meta command: unknown kind to this version")

// errFenced is the result of an entry that has no effect because an earlier one has a higher fence.
var errFenced = errors.New("the log has a higher fence than this try of a change")

// MembersResult is the result of applying a ChangeMembers.
type MembersResult struct {
	Table *membership.Table // after the change
	Err   error
}

func (m *Machine) changeMembers(c *raftlogv1.ChangeMembers) MembersResult {
	t := m.Members.Load()
	next, err := t.Apply(c)
	if err != nil {
		return MembersResult{Table: t, Err: err}
	}
	m.Members.Store(next)
	m.Regrouped(next)
	return MembersResult{Table: next}
}

// setLimits applies a change of limits.
func (m *Machine) setLimits(set *raftlogv1.SetLimits) limitsResult {
	m.mu.Lock()
	made, err := m.makeVersion(set)
	if made == nil || err != nil {
		defer m.mu.Unlock()
		return limitsResult{version: m.history.newest().info, err: err}
	}
	if made.info.Number <= m.limits.Version { // a repetition: the first one was applied
		defer m.mu.Unlock()
		return limitsResult{version: made.info, changed: true}
	}
	limits, err := made.decode()
	if err != nil {
		defer m.mu.Unlock()
		return limitsResult{version: m.history.newest().info, err: err}
	}
	made.count(m.limits.All(), limits.All())
	m.history.add(made)
	m.limits = limits
	m.mu.Unlock()
	m.changed(limits)
	return limitsResult{version: made.info, changed: true}
}

// makeVersion returns the version that the entry creates or has already created, or nil if it
// changes nothing. The caller holds m.mu.
func (m *Machine) makeVersion(set *raftlogv1.SetLimits) (*pastLimits, error) {
	if v := m.history.madeBy(set.GetRequestId()); v != nil {
		return v, nil
	}
	newest := m.history.newest()
	if set.Expect != nil && set.GetExpect() != m.limits.Version {
		return nil, &quota.ConflictError{Expected: int64(set.GetExpect()), Current: m.limits.Version, By: newest.info.By}
	}
	encoded, err := m.limitsOf(set)
	if err != nil || bytes.Equal(encoded, newest.limits) {
		return nil, err
	}
	return &pastLimits{limits: encoded, id: set.GetRequestId(), info: quota.Version{
		Number: m.limits.Version + 1, At: quota.Time(set.GetAtUnixNanos()),
		By: set.GetBy(), Comment: set.GetComment(), RollbackTo: set.GetRollbackTo(),
	}}, nil
}

// limitsOf returns the entry's encoded limits: its own, or those of the version that it restores.
// The caller holds m.mu.
func (m *Machine) limitsOf(set *raftlogv1.SetLimits) ([]byte, error) {
	if set.GetRollbackTo() == 0 {
		return snapshotio.Canonical.Marshal(&raftlogv1.LimitList{Limits: set.GetLimits()})
	}
	v, err := m.history.find(set.GetRollbackTo())
	if err != nil {
		return nil, err
	}
	return v.limits, nil
}

// Content counts the items in a snapshot of the meta group.
type Content struct {
	LimitsVersion uint64 // the current version; 0 before the first
	Versions      int    // in the history
	Limits        int    // in the current version
	Overrides     int
	PolicyConfigs int
	Policies      int
	Bindings      int // of roles
	Tokens        int // bearer tokens, hashed
}

// Content returns the number of items that the machine holds.
func (m *Machine) Content() Content {
	out := Content{LimitsVersion: m.limits.Version, Versions: len(m.history.list), Limits: len(m.limits.All()), Overrides: m.overrides.Load().count}
	for _, c := range m.Policies.Load().configs {
		out.PolicyConfigs++
		out.Policies += len(c.policies)
	}
	table := m.Security.table.Load()
	out.Bindings, out.Tokens = len(table.Bindings()), len(table.Tokens())
	return out
}
