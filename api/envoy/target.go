package envoy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/descriptor"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

func badf(format string, args ...any) error { return fmt.Errorf(format, args...) }

var errAcquired = errors.New("is a concurrency limit, which a proxy cannot release; use a rate for it")

// target is the key that one descriptor of a request is counted by.
type target struct {
	entries []descriptor.Entry
	rule    *descriptor.Rule // nil: none, or the limit that the request carries
	asIs    bool             // the rule is from Options.Rules
	inline  bool             // the request carries the limit
	key     quota.Key        // empty: nothing is counted
	hits
}

// targets finds the target of every descriptor.
func (s *Server) targets(req *request) ([]target, error) {
	tree, asIs := s.o.Rules().tree(req.Domain)
	namespace := descriptor.Namespace(req.Domain)
	limits := s.node.Limits()
	index := s.finder.Of(limits)
	brings := s.o.Overrides && (asIs || index.Knows(req.Domain))
	out := make([]target, len(req.Descriptors))
	for i, d := range req.Descriptors {
		t := &out[i]
		t.entries, t.hits = entriesOf(d), hitsOf(req, d)
		if !t.named() { // without keys no limit matches, and its own limit could not be counted
			continue
		}
		if d.Limit != nil && brings {
			if err := t.setInline(namespace, d.Limit); err != nil {
				return nil, invalid("descriptors[%d].limit: %v", i, err)
			}
			continue
		}
		if t.asIs = asIs; asIs {
			t.follow(tree.Match(t.entries))
		} else {
			t.follow(index.Match(req.Domain, t.entries))
		}
		if l, ok := limits.Find(t.key.LimitName); ok && l.Kind == quota.Concurrency {
			return nil, status.Errorf(codes.FailedPrecondition, "descriptors[%d]: the limit %v %v", i, l.LimitName, errAcquired)
		}
	}
	replace(out)
	return out, nil
}

func entriesOf(d *commonv3.RateLimitDescriptor) []descriptor.Entry {
	out := make([]descriptor.Entry, len(d.GetEntries()))
	for i, e := range d.GetEntries() {
		out[i] = descriptor.Entry{Key: e.GetKey(), Value: e.GetValue()}
	}
	return out
}

// named reports whether there are entries and each has a key.
func (t *target) named() bool {
	return len(t.entries) > 0 && !slices.ContainsFunc(t.entries, func(e descriptor.Entry) bool { return e.Key == "" })
}

// follow sets the key by a rule, if r is not nil.
func (t *target) follow(r *descriptor.Rule) {
	t.rule = r
	if r == nil || r.Unlimited || r.Limit == (quota.LimitName{}) {
		return
	}
	t.key.LimitName = r.Limit
	if t.asIs {
		t.key.Key = r.FullKey(t.entries)
	} else {
		t.key.Key = r.Key(t.entries)
	}
}

// setInline sets the key by a limit that the request carries.
func (t *target) setInline(namespace string, l *commonv3.RateLimitDescriptor_RateLimitOverride) error {
	per, err := periodOf(l)
	if err != nil {
		return err
	}
	name, err := inlineLimit(namespace, int64(l.RequestsPerUnit), per)
	if err != nil {
		return err
	}
	t.key, t.inline = quota.Key{LimitName: name, Key: descriptor.FullKey(t.entries)}, true
	return nil
}

// replace clears the targets whose rules another target of the request replaces.
func replace(targets []target) {
	var names []string
	for i := range targets {
		if r := targets[i].rule; r != nil && targets[i].asIs {
			names = append(names, r.Replaces...)
		}
	}
	if len(names) == 0 {
		return
	}
	for i := range targets {
		t := &targets[i]
		if r := t.rule; r != nil && !r.Unlimited && r.Name != "" && slices.Contains(names, r.Name) {
			t.rule, t.key = nil, quota.Key{}
		}
	}
}

// gives reports whether a target gives tokens back.
func gives(t target) bool { return t.negative && t.counted() }

// counted reports whether there is something to charge.
func (t *target) counted() bool { return t.key != quota.Key{} }

func (t *target) quota() bool { return t.counted() && t.rule != nil && t.rule.Quota }

// unmet reports whether d counted nothing because the node has no room for the target's limit. A shadow refuses nothing.
func (t *target) unmet(d *quota.Decision) bool {
	return d.Limit == nil && t.key.IsInline() && (t.rule == nil || !t.rule.Shadow)
}

// chargeAll decides the targets, each on its own. A decision is nil if nothing is counted.
func (s *Server) chargeAll(ctx context.Context, targets []target) ([]statusCode, []*quota.Decision) {
	codes, decisions := slices.Repeat([]statusCode{okCode}, len(targets)), make([]*quota.Decision, len(targets))
	var calls []quota.Call
	var at []int // at[j] is the target of calls[j]
	reqs, out := make([]quota.Request, len(targets)), make([]quota.Decision, len(targets))
	for _, refund := range []bool{true, false} { // refunds come first, also at a leader: it gets both in one message
		for i := range targets {
			t := &targets[i]
			switch {
			case t.negative != refund || !t.counted():
			case t.inline && !s.node.AdmitInline(t.key.LimitName, s.o.Owner(ctx)):
				codes[i], decisions[i] = noCode, &quota.Decision{Why: quota.WhyNoLimit}
			default:
				reqs[i] = quota.Request{Key: t.key, Cost: t.n}
				calls, at = append(calls, quota.Call{Requests: reqs[i : i+1], Out: out[i : i+1], Refund: refund}), append(at, i)
			}
		}
	}
	s.node.Batch()(calls)
	for _, i := range at {
		codes[i], decisions[i] = s.charged(ctx, &targets[i], &out[i])
	}
	return codes, decisions
}

// charged returns the outcome of the decision on a target, which it may change.
func (s *Server) charged(ctx context.Context, t *target, d *quota.Decision) (statusCode, *quota.Decision) {
	if t.unmet(d) {
		return noCode, d
	}
	if d.Limit == nil || t.negative { // the limit was deleted, or its rule is a shadow; a refund refuses nothing
		d.Allowed = true
		return okCode, d
	}
	if t.explicit && t.n > 1 && (!d.Allowed || d.Shadow) && s.o.May(ctx, rbac.Report, t.key.Namespace) == nil {
		// The hits may be use after the fact, which counts however much it is.
		_, after := s.node.Charge(t.key, t.n)
		d.Remaining, d.ResetAfter = after.Remaining, after.ResetAfter
	}
	if !d.Allowed && t.rule != nil && t.rule.Shadow {
		d.Allowed, d.Shadow = true, true
	}
	if d.Allowed {
		return okCode, d
	}
	return overCode, d
}
