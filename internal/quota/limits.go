package quota

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Names that users cannot choose. Default applies to names that a namespace does not list; Template is the rule from
// which limits for such names are made.
const (
	Default  = "@default"
	Template = "@template"
)

// Global is the limit of last resort. It belongs to no namespace.
var Global = LimitName{"@global", Default}

// WholeKey is the key of limits that have one bucket for all callers.
const WholeKey = "*"

func (n LimitName) special() bool {
	return n == Global || (n.Limit == Default || n.Limit == Template) && CheckName("namespace", n.Namespace) == nil
}

// Charge is one counter that a check charges.
type Charge struct {
	Limit *Limit // has one tier: More is empty
	Up    int    // segments to cut off the key; above 0 for a parent's counter
	Floor bool   // the floor: while it lasts, parents (Up > 0) are not asked
}

// Limits is an immutable, versioned set of limits, sorted by name.
type Limits struct {
	Version uint64

	list    []Limit
	meters  map[LimitName]*Limit // every counter by name, limits included
	charges map[LimitName][]Charge
	spaces  map[string]int64     // number of counters by namespace
	matches map[string]*pathNode // limits for HTTP requests by namespace
}

// NewLimits returns the set, or all of its errors: invalid or duplicate limits, missing parents,
// cycles of parents, more than MaxLimits.
func NewLimits(version uint64, list []Limit) (*Limits, error) {
	if len(list) > MaxLimits {
		return nil, fmt.Errorf("limits: %d; at most %d", len(list), MaxLimits)
	}
	s := &Limits{Version: version, list: slices.Clone(list), meters: make(map[LimitName]*Limit, len(list))}
	slices.SortFunc(s.list, func(a, b Limit) int {
		return a.LimitName.Compare(b.LimitName)
	})
	var errs []error
	for i := range s.list {
		l := &s.list[i]
		if err := l.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("limit %v: %w", l.LimitName, err))
		}
		if i > 0 && l.LimitName == s.list[i-1].LimitName {
			errs = append(errs, fmt.Errorf("limit %v: is defined twice", l.LimitName))
		}
		s.index(l)
	}
	s.spaces = map[string]int64{}
	for n := range s.meters {
		s.spaces[n.Namespace]++
	}
	s.charges = make(map[LimitName][]Charge, len(s.list))
	for i := range s.list {
		l := &s.list[i]
		charges, err := s.chargesOf(l)
		if err != nil {
			errs = append(errs, fmt.Errorf("limit %v: %w", l.LimitName, err))
		}
		s.charges[l.LimitName] = charges
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

// index registers a limit's counters (tiers and floor) and its HTTP match.
func (s *Limits) index(l *Limit) {
	s.meters[l.LimitName] = l
	for i, t := range l.More {
		m := *l
		m.LimitName, m.More = meterName(l.LimitName, strconv.Itoa(i+2)), nil
		m.SetFirst(t)
		s.meters[m.LimitName] = &m
	}
	if l.Floor.Tokens > 0 || l.FloorBurst > 0 {
		m := *l
		m.LimitName, m.More = meterName(l.LimitName, "floor"), nil
		m.SetFirst(Tier{Rate: l.Floor, Burst: l.FloorBurst})
		// A floor is decided locally, even if the leader decides the rest of the limit.
		m.Ceiling, m.Decide, m.MaxWait, m.MaxDebt, m.MaxCost = Soft, DecideDefault, 0, 0, 0
		s.meters[m.LimitName] = &m
	}
	if l.Match != nil {
		if s.matches == nil {
			s.matches = map[string]*pathNode{}
		}
		if s.matches[l.Namespace] == nil {
			s.matches[l.Namespace] = &pathNode{}
		}
		s.matches[l.Namespace].add(trimSlash(l.Match.Path), l)
	}
}

// chargesOf returns the charges of a check of l: its tiers, its floor, the tiers of its parents.
func (s *Limits) chargesOf(l *Limit) ([]Charge, error) {
	var out []Charge
	floored := false
	for up, at := 0, l; ; up++ {
		if up > 0 && at.LimitName == l.LimitName {
			return out, errors.New("parent: this limit is above itself; break the cycle")
		}
		if up > MaxParents {
			return out, fmt.Errorf("parent: has more than %d limits above it, or a cycle of them", MaxParents)
		}
		if floored && at.Ceiling == Hard {
			return out, fmt.Errorf("floor: %v above it is hard, and a floor may overdraw it; use ceiling: soft there, or no floor", at.LimitName)
		}
		if at.Kind == Concurrency && up > 0 {
			return out, fmt.Errorf("parent: %v counts requests in flight; name both in one call", at.LimitName)
		}
		out = append(out, Charge{Limit: s.meters[at.LimitName], Up: up})
		for i := range at.More {
			out = append(out, Charge{Limit: s.meters[meterName(at.LimitName, strconv.Itoa(i+2))], Up: up})
		}
		if f, ok := s.meters[meterName(at.LimitName, "floor")]; ok && up == 0 {
			out, floored = append(out, Charge{Limit: f, Floor: true}), true
		}
		if at.Parent == "" {
			return out, nil
		}
		next, ok := s.meters[LimitName{at.Namespace, at.Parent}]
		if !ok {
			return out, fmt.Errorf("parent: unknown limit %s/%s", at.Namespace, at.Parent)
		}
		at = next
	}
}

// All returns the limits, sorted by name. Callers must not change them.
func (s *Limits) All() []Limit {
	if s == nil {
		return nil
	}
	return s.list
}

// Meters calls f for every counter (each tier and floor), in no order.
func (s *Limits) Meters(f func(*Limit)) {
	if s == nil {
		return
	}
	for _, m := range s.meters {
		f(m)
	}
}

// Find returns the limit or counter with exactly this name. An inline limit is decoded again on
// each call.
func (s *Limits) Find(n LimitName) (*Limit, bool) {
	if n.IsInline() {
		l, err := n.Inline()
		return l, err == nil
	}
	if s == nil {
		return nil, false
	}
	l, ok := s.meters[n]
	return l, ok
}

// Charges returns the counters that a check of a limit charges, in order: its tiers, its floor,
// those of its parents. Callers must not modify the result.
func (s *Limits) Charges(n LimitName) []Charge {
	if n.IsInline() {
		if l, err := n.Inline(); err == nil {
			return []Charge{{Limit: l}}
		}
		return nil
	}
	if s == nil {
		return nil
	}
	return s.charges[n]
}

// Resolve returns the limit for a name and the key under which it counts. It returns the first of:
//
//	the limit itself                    key
//	the namespace's template            name/key
//	the namespace's default             key
//	the global default                  key
//
// This is the search order of square/quotaservice.
func (s *Limits) Resolve(n LimitName, key string) (*Limit, string) {
	if n.IsInline() {
		l, _ := s.Find(n)
		return l, key
	}
	if s == nil {
		return nil, key
	}
	if l, ok := s.meters[n]; ok {
		return l, key
	}
	if l, ok := s.meters[LimitName{n.Namespace, Template}]; ok {
		return l, n.Limit + "/" + key
	}
	if l, ok := s.meters[LimitName{n.Namespace, Default}]; ok {
		return l, key
	}
	return s.meters[Global], key
}

// ParentKey cuts the last up segments off a key. It returns WholeKey if none is left.
func ParentKey(key string, up int) string {
	for range up {
		i := strings.LastIndexByte(key, '/')
		if i <= 0 {
			return WholeKey
		}
		key = key[:i]
	}
	return key
}

// InlineLimits stands for all inline limits where limits share a table.
var InlineLimits = LimitName{"@inline", "@inline"}

// Sharer returns the name under which a counter's keys count towards a shared table. All inline
// limits share one, because callers choose their names.
func (n LimitName) Sharer() LimitName {
	if n.IsInline() {
		return InlineLimits
	}
	return n
}

// Share returns a sharer's part of total. total is divided equally among the namespaces and the
// inline limits, and each namespace's part equally among its counters. The result is at least 1.
func (s *Limits) Share(n LimitName, total int64) int64 {
	if s == nil {
		return total
	}
	share := total / int64(len(s.spaces)+1)
	if n = n.Sharer(); n != InlineLimits {
		share /= max(1, s.spaces[n.Namespace])
	}
	return max(1, share)
}

// HasRoom reports whether a sharer with keys entries may add one to a table of size entries with room for most. The
// first fifteen sixteenths of the table are open to all. Half of the rest is for sharers below their share of the
// whole table. The other half is divided by the same shares, so every sharer can get its part of it independently of
// the others.
func HasRoom(size, most, keys, share int64) bool {
	switch free := most - size; {
	case free > most/16:
		return true
	case free > most/32:
		return keys < share
	default:
		return free > 0 && keys < max(1, share/32)
	}
}
