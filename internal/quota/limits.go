package quota

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Names that no user can choose. In a namespace Default is what counts for
// limits that are not there, and Template is what they are made from.
const (
	Default  = "@default"
	Template = "@template"
)

// Global is the limit of last resort, in no namespace.
var Global = LimitName{"@global", Default}

// WholeKey is the key of limits that have one bucket for everybody.
const WholeKey = "*"

func (n LimitName) special() bool {
	return n == Global || (n.Limit == Default || n.Limit == Template) && CheckName("namespace", n.Namespace) == nil
}

// Charge is one counter that a check of a limit charges.
type Charge struct {
	Limit *Limit // one tier: its More is empty
	Up    int    // how many segments are cut off the key: a parent's counter
	Floor bool   // charged while it lasts instead of asking those with Up > 0
}

// Limits is an immutable, versioned set of limits, sorted by name.
type Limits struct {
	Version uint64

	list    []Limit
	meters  map[LimitName]*Limit // every counter by its name, limits included
	charges map[LimitName][]Charge
	spaces  map[string]int64     // how many counters each namespace has
	matches map[string]*pathNode // limits for HTTP requests, by namespace
}

// NewLimits returns the set, or every fault in it: invalid limits, duplicates,
// parents that are missing or go in circles, more than MaxLimits.
func NewLimits(version uint64, list []Limit) (*Limits, error) {
	if len(list) > MaxLimits {
		return nil, fmt.Errorf("limits: %d; at most %d", len(list), MaxLimits)
	}
	s := &Limits{Version: version, list: slices.Clone(list), meters: make(map[LimitName]*Limit, len(list))}
	slices.SortFunc(s.list, func(a, b Limit) int { return compareNames(a.LimitName, b.LimitName) })
	var errs []error
	for i := range s.list {
		l := &s.list[i]
		if err := l.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("limit %v: %w", l.LimitName, err))
		}
		if i > 0 && l.LimitName == s.list[i-1].LimitName {
			errs = append(errs, fmt.Errorf("limit %v: is there twice", l.LimitName))
		}
		s.index(l)
	}
	s.spaces = map[string]int64{}
	for n := range s.meters {
		s.spaces[n.Namespace]++
	}
	errs = append(errs, s.plan()...)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

func compareNames(a, b LimitName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Limit, b.Limit))
}

// index enters the limit's counters: its tiers and its floor.
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
		// It is guaranteed here and now, whoever decides about the rest.
		m.Ceiling, m.Decide, m.MaxWait, m.MaxDebt, m.MaxCost = Soft, Locally, 0, 0, 0
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

// plan computes what every limit charges, parents included.
func (s *Limits) plan() []error {
	s.charges = make(map[LimitName][]Charge, len(s.list))
	var errs []error
	for i := range s.list {
		l := &s.list[i]
		charges, err := s.chargesOf(l)
		if err != nil {
			errs = append(errs, fmt.Errorf("limit %v: %w", l.LimitName, err))
		}
		s.charges[l.LimitName] = charges
	}
	return errs
}

func (s *Limits) chargesOf(l *Limit) ([]Charge, error) {
	var out []Charge
	floored := false
	for up, at := 0, l; ; up++ {
		if up > MaxParents {
			return out, fmt.Errorf("parent: more than %d above it, or a circle", MaxParents)
		}
		if floored && at.Ceiling == Hard {
			return out, fmt.Errorf("floor: %v above it is hard, and a floor may overdraw it; use ceiling: soft there, or no floor", at.LimitName)
		}
		if at.Kind == Concurrency && up > 0 {
			return out, fmt.Errorf("parent: %v counts what is in flight; name both in one call", at.LimitName)
		}
		out = s.appendTiers(out, at, up)
		if f, ok := s.meters[meterName(at.LimitName, "floor")]; ok && up == 0 {
			out, floored = append(out, Charge{Limit: f, Floor: true}), true
		}
		if at.Parent == "" {
			return out, nil
		}
		next, ok := s.meters[LimitName{at.Namespace, at.Parent}]
		if !ok {
			return out, fmt.Errorf("parent: there is no limit %s/%s", at.Namespace, at.Parent)
		}
		at = next
	}
}

func (s *Limits) appendTiers(out []Charge, l *Limit, up int) []Charge {
	out = append(out, Charge{Limit: s.meters[l.LimitName], Up: up})
	for i := range l.More {
		out = append(out, Charge{Limit: s.meters[meterName(l.LimitName, strconv.Itoa(i+2))], Up: up})
	}
	return out
}

// All returns the limits, sorted by name. Callers must not change them.
func (s *Limits) All() []Limit {
	if s == nil {
		return nil
	}
	return s.list
}

// Meters calls f for every counter: each limit's tiers and floor.
func (s *Limits) Meters(f func(*Limit)) {
	if s == nil {
		return
	}
	for _, m := range s.meters {
		f(m)
	}
}

// Find returns the limit or counter of exactly that name. A limit that a caller
// brought along ([Inline]) is made anew.
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

// Charges returns what a check of a limit charges, in order: its tiers, its
// floor, its parents'. Callers must not change it.
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

// Resolve finds the limit for a name, and the key that it is counted by:
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

// ParentKey cuts up segments off a key; what has none left is WholeKey.
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
