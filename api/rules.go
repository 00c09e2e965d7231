package api

import (
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/api/apijson"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/series"
)

// whyCount is one more than the largest Why.
var whyCount = len(quota.Whys()) + 1

// Prepared holds the forms of one limit that calls need, built once per limit.
type Prepared struct {
	PB     *quoratev1.Limit
	JSON   []byte // the limit as JSON in an answer
	Wire   []byte // the limit as an encoded field of AllowResponse
	tiers  []PreparedTier
	Quoted string // the limit's name as in the RateLimit fields
	Counts *Counts
}

// PreparedTier is one tier of a prepared limit.
type PreparedTier struct {
	Tier   quota.Tier
	Policy []string // RateLimit-Policy
}

// Counts are the decision counters of one limit name. They survive changes of the limit.
type Counts struct {
	allowed, refused []atomic.Uint64 // by Why
	shadow, near     atomic.Uint64
}

// Add counts a decision that was made times times.
func (c *Counts) Add(d *quota.Decision, times uint64) {
	why := d.Why
	if int(why) >= whyCount {
		why = quota.WhyUnknown
	}
	if d.Allowed {
		c.allowed[why].Add(times)
	} else {
		c.refused[why].Add(times)
	}
	if d.Shadow {
		c.shadow.Add(times)
	}
	if d.Near {
		c.near.Add(times)
	}
}

// rules finds the rule of a limit by its pointer, without a lock and without building a key. A new
// set of limits starts a new generation, which frees the old pointers. The counts of limits that
// remain are carried over.
type rules struct {
	current atomic.Pointer[generation]

	Guard *series.Guard // says which limits are counted by name; set once

	mu     sync.Mutex // guards byName, and changes of current
	byName map[quota.LimitName]*Counts
}

type generation struct {
	limits *quota.Limits
	byPtr  sync.Map // *quota.Limit -> *rule
	size   int      // entries in byPtr; guarded by rules.mu
}

// maxSpare is how many rules a generation keeps in addition to one per limit. Overrides change the
// limits of single keys, and each changed limit has its own rule. One more rule starts a new
// generation.
const maxSpare = 10_000

// serves reports whether g is for active or for a newer set: a call that read the limits just
// before a change must not bring the old ones back.
func (g *generation) serves(active *quota.Limits) bool {
	return g != nil && (g.limits == active || active == nil || g.limits != nil && g.limits.Version > active.Version)
}

// of returns the rule of l, a limit that is current or was so until just now.
func (r *rules) of(l *quota.Limit, active *quota.Limits) *Prepared {
	g := r.current.Load()
	if g.serves(active) {
		if v, ok := g.byPtr.Load(l); ok {
			return v.(*Prepared)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	g = r.current.Load()
	switch {
	case !g.serves(active):
		g = &generation{limits: active}
		r.keepOnly(active)
		r.current.Store(g)
	case g.size >= len(g.limits.All())+maxSpare:
		g = &generation{limits: g.limits}
		r.current.Store(g)
	}
	base := r.Guard.Of(counted(l))
	c := r.byName[base]
	if c == nil {
		c = &Counts{allowed: make([]atomic.Uint64, whyCount), refused: make([]atomic.Uint64, whyCount)}
		r.byName[base] = c
	}
	made := Prepare(l, c)
	if _, there := g.byPtr.Swap(l, made); !there {
		g.size++
	}
	return made
}

// inline is the name under which all limits that requests carry are counted together: the
// number of their names is unbounded.
const inline = "@inline"

func counted(l *quota.Limit) quota.LimitName {
	if l.IsInline() {
		return quota.LimitName{Namespace: l.Namespace, Limit: inline}
	}
	base, _ := l.Base()
	return base
}

// keepOnly drops the counts of limits that no longer exist, and keeps names that stand for several
// limits. The caller holds mu.
func (r *rules) keepOnly(limits *quota.Limits) {
	if r.byName == nil {
		r.byName = make(map[quota.LimitName]*Counts)
	}
	r.Guard.Prune(func(n quota.LimitName) bool { _, ok := limits.Find(n); return ok })
	for name := range r.byName {
		if _, ok := limits.Find(name); !ok && name.Limit[0] != '@' {
			delete(r.byName, name)
		}
	}
}

// each calls f for every limit that has made a decision, in no particular order.
func (r *rules) each(f func(quota.LimitName, *Counts)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, c := range r.byName {
		f(name, c)
	}
}

// Prepare returns the forms of a limit, and counts its decisions in c.
func Prepare(l *quota.Limit, c *Counts) *Prepared {
	pb := shortLimit(l)
	r := &Prepared{PB: pb, JSON: apijson.Format(pb), Wire: wireLimit(pb), Quoted: strconv.Quote(pb.Name), Counts: c} // a name needs no escaping
	for _, t := range l.Tiers() {
		r.tiers = append(r.tiers, PreparedTier{Tier: t, Policy: []string{policyOf(r.Quoted, &t)}})
	}
	return r
}

// policyOf returns RateLimit-Policy of one tier: the most that passes at once, and the time in
// which that comes back.
func policyOf(quoted string, t *quota.Tier) string {
	policy := quoted + ";q=" + strconv.FormatInt(t.Burst, 10)
	w := time.Duration(0)
	switch {
	case t.Kind.Windowed():
		w = t.Rate.Per
	case t.Kind == quota.TokenBucket:
		w = t.Rate.TimeFor(t.BurstUnits())
	}
	if w > 0 && w < math.MaxInt64 {
		policy += ";w=" + strconv.FormatInt(apiproto.WholeSeconds(w), 10)
	}
	return policy
}

// Decided returns the tier that made the decision.
func (r *Prepared) Decided(d *quota.Decision) *PreparedTier {
	if i := d.Tier - 1; i > 0 && i < len(r.tiers) {
		return &r.tiers[i]
	}
	return &r.tiers[0]
}

// shortLimit returns a limit as answers to checks show it: without the fields that have their
// default value.
func shortLimit(l *quota.Limit) *quoratev1.Limit {
	out := apiproto.Limit(l)
	if l.Class == quota.Counted {
		out.Class = quoratev1.Class_CLASS_UNSPECIFIED
	}
	if l.Enforcement == quota.Enforce {
		out.Enforcement = quoratev1.Enforcement_ENFORCEMENT_UNSPECIFIED
	}
	if out.Fraction == 1 {
		out.Fraction = 0
	}
	if out.Near == quota.DefaultNear {
		out.Near = 0
	}
	if l.Decide == quota.DecideDefault {
		out.Decide = quoratev1.Decide_DECIDE_UNSPECIFIED
	}
	return out
}

// wireLimit returns a limit as an encoded field of an answer.
func wireLimit(l *quoratev1.Limit) []byte {
	const limitField = 2 // of AllowResponse
	data, err := proto.Marshal(l)
	if err != nil {
		panic(err) // invariant: names, rates and time zones are ASCII
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, limitField, protowire.BytesType), data)
}
