package control

import (
	"fmt"
	"slices"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/limitproto"
	"github.com/quorate/quorate/internal/quota"
)

// TooManyOverridesError reports that a change would exceed quota.MaxOverrides. It set nothing.
type TooManyOverridesError struct {
	Have   int // existing overrides
	Adding int // overrides that the change would add
}

func (e *TooManyOverridesError) Error() string {
	return fmt.Sprintf("overrides: %d exist, and %d more would exceed the maximum of %d", e.Have, e.Adding, quota.MaxOverrides)
}

// overridesResult is the result of applying a change of overrides.
type overridesResult struct {
	count    int    // overrides set or deleted
	revision uint64 // of the table after the change
	err      error
}

// maxTold bounds a list of changed keys; a longer one is reported as nil, meaning all.
const maxTold = 10_000

func (m *Machine) setOverrides(set *raftlogv1.SetOverrides) overridesResult {
	edits := make([]overrideEdit, 0, len(set.GetOverrides()))
	for _, s := range set.GetOverrides() {
		e, err := editOf(s)
		if err != nil {
			return overridesResult{revision: m.overrides.Load().revision, err: err}
		}
		edits = append(edits, e)
	}
	return m.editOverrides(edits)
}

// deleteOverrides skips keys that have no override.
func (m *Machine) deleteOverrides(del *raftlogv1.DeleteOverrides) overridesResult {
	table := m.overrides.Load()
	var edits []overrideEdit
	for _, k := range del.GetKeys() {
		if k := limitproto.DecodeKey(k); table.find(k) != nil {
			edits = append(edits, overrideEdit{key: k})
		}
	}
	return m.editOverrides(edits)
}

// editOverrides applies all edits, or none if there would be too many overrides. If several edits
// have the same key, the last one wins.
func (m *Machine) editOverrides(edits []overrideEdit) overridesResult {
	before := m.overrides.Load()
	if len(edits) == 0 {
		return overridesResult{revision: before.revision}
	}
	edits = sortEdits(edits)
	after := before.with(edits)
	if after.count > m.maxOverrides && after.count > before.count {
		return overridesResult{revision: before.revision, err: &TooManyOverridesError{Have: before.count, Adding: after.count - before.count}}
	}
	m.overrides.Store(after)
	m.overridden(keysOf(edits))
	return overridesResult{count: len(edits), revision: after.revision}
}

func sortEdits(edits []overrideEdit) []overrideEdit {
	slices.SortStableFunc(edits, func(a, b overrideEdit) int { return a.key.Compare(b.key) })
	out := edits[:0]
	for i, e := range edits {
		if i+1 == len(edits) || edits[i+1].key != e.key {
			out = append(out, e)
		}
	}
	return out
}

func keysOf(edits []overrideEdit) []quota.Key {
	if len(edits) > maxTold {
		return nil
	}
	keys := make([]quota.Key, len(edits))
	for i := range edits {
		keys[i] = edits[i].key
	}
	return keys
}

// Override implements quota.Overrides without a lock.
func (m *Machine) Override(k quota.Key) *quota.Override {
	rule := m.overrides.Load().find(k)
	if rule == nil {
		return nil
	}
	o := limitproto.DecodeOverride(k, rule.unpack())
	return &o
}

// listOverrides returns at most count overrides with keys after the given one: those of one limit,
// of one namespace (no limit), or all (zero name). The second result is the total number of
// overrides that match name, regardless of after.
func (m *Machine) listOverrides(name quota.LimitName, after quota.Key, count int) ([]quota.Override, int) {
	t := m.overrides.Load()
	of := func(n quota.LimitName) bool {
		return (name.Namespace == "" || n.Namespace == name.Namespace) && (name.Limit == "" || n.Limit == name.Limit)
	}
	total := 0
	for i, _ := t.limit(name); i < len(t.limits) && of(t.limits[i].name); i++ {
		total += t.limits[i].count
	}
	if first := (quota.Key{LimitName: name}); after.Compare(first) < 0 {
		after = first
	}
	var out []quota.Override
	for k, rule := range t.after(after) {
		if len(out) >= count || !of(k.LimitName) {
			break
		}
		out = append(out, limitproto.DecodeOverride(k, rule.unpack()))
	}
	return out, total
}
