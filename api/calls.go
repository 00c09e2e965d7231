package api

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

// plan holds a call of several checks as requests to the node. A check by HTTP method and path
// becomes zero or more requests.
type plan struct {
	reqs []quota.Request
	ends []int // ends[i] is the end of the requests of check i
	out  []quota.Decision
}

// decideOne decides a check that is not plain.
func (s *QuotaService) decideOne(c *Check) (quota.Decision, *Prepared, error) {
	p, err := s.plan([]Check{*c}, false)
	if err != nil {
		return quota.Decision{}, nil, err
	}
	if len(p.reqs) == 0 {
		return quota.Decision{Allowed: true, Why: quota.WhyNoLimit}, NoRule, nil
	}
	allowed := s.node.Decide(p.reqs, p.out)
	if err := s.noLimitIn(p); err != nil {
		return quota.Decision{}, nil, err
	}
	d, r := s.result(p.out, allowed)
	return d, r, nil
}

// Decided is the decision of one check of a batch, or its error.
type Decided struct {
	quota.Decision
	Rule *Prepared
	Err  error
}

// DecideAll validates, decides and counts independent checks. They wait for leaders together. Checks with more than
// apiproto.MaxBatch requests are decided in parts of about that many, which bounds the memory: a check by HTTP method and
// path becomes as many requests as limits match.
func (s *QuotaService) DecideAll(checks []Check) []Decided {
	out, batch := make([]Decided, len(checks)), s.node.Batch()
	for done := 0; done < len(checks); {
		done += s.decidePart(batch, checks[done:], out[done:])
	}
	return out
}

// decidePart decides the first checks, and returns how many.
func (s *QuotaService) decidePart(batch func([]quota.Call), checks []Check, out []Decided) int {
	all := plan{ends: make([]int, 0, len(checks)), reqs: make([]quota.Request, 0, len(checks))}
	for i := range checks {
		if len(all.reqs) >= apiproto.MaxBatch {
			break
		}
		out[i].Err = s.appendRequests(&all, &checks[i])
		all.ends = append(all.ends, len(all.reqs))
	}
	all.out = make([]quota.Decision, len(all.reqs))
	calls, start := make([]quota.Call, len(all.ends)), 0
	for i, end := range all.ends {
		calls[i] = quota.Call{Requests: all.reqs[start:end], Out: all.out[start:end]}
		start = end
	}
	batch(calls)
	for i := range calls {
		d, c := &out[i], &calls[i]
		if d.Err == nil {
			d.Err = s.noLimitIn(&plan{reqs: c.Requests, out: c.Out})
		}
		if d.Err == nil {
			d.Decision, d.Rule = s.result(c.Out, c.Allowed)
		}
	}
	return len(calls)
}

// plan validates checks and makes their requests. If several is set, an error names the faulty
// check.
func (s *QuotaService) plan(checks []Check, several bool) (*plan, error) {
	p := &plan{ends: make([]int, len(checks))}
	for i := range checks {
		err := s.appendRequests(p, &checks[i])
		if err != nil {
			if several {
				err = apierr.In(fmt.Sprintf("checks[%d]", i), err)
			}
			return nil, err
		}
		p.ends[i] = len(p.reqs)
	}
	p.out = make([]quota.Decision, len(p.reqs))
	return p, nil
}

func (s *QuotaService) appendRequests(p *plan, c *Check) error {
	cost, err := c.validate()
	if err != nil {
		return err
	}
	r := quota.Request{Key: c.Key, Cost: cost, MaxWait: quota.LimitsWait}
	if c.Waits {
		r.MaxWait = c.Wait
	}
	if c.Method == "" {
		p.reqs = append(p.reqs, r)
		return nil
	}
	limits := s.node.Limits()
	matching, any := limits.HTTP(nil, c.Key.Namespace, c.Method, c.Path)
	if !any {
		f := s.noSuchLimit(quota.LimitName{Namespace: c.Key.Namespace})
		f.Field, f.Detail = "namespace", fmt.Sprintf("%q has no limits for HTTP requests; give them a match, or name a limit", c.Key.Namespace)
		return f
	}
	for _, l := range matching {
		r.Key.LimitName = l.LimitName
		p.reqs = append(p.reqs, r)
	}
	return nil
}

// noLimitIn returns the error of the first request whose limit does not exist, or nil.
func (s *QuotaService) noLimitIn(p *plan) error {
	for i := range p.out {
		if p.out[i].Limit != nil || p.out[i].Why != quota.WhyNoLimit {
			continue
		}
		s.Meter.noLimit.Inc()
		f := s.noLimit(p.reqs[i].Key.LimitName)
		if len(p.ends) > 1 {
			n := 0
			for p.ends[n] <= i {
				n++
			}
			f.Field = fmt.Sprintf("checks[%d].limit", n)
		}
		return f
	}
	return nil
}

// result counts the decisions of one check and returns the most important one: the longest refusal,
// else the longest wait, else the least that remains. If the call was refused, the decisions that
// would have passed charged nothing and are not counted, and the requests after the refusal were
// not decided.
func (s *QuotaService) result(out []quota.Decision, allowed bool) (quota.Decision, *Prepared) {
	if len(out) == 0 {
		return quota.Decision{Allowed: true, Why: quota.WhyNoLimit}, NoRule
	}
	var best *quota.Decision
	for i := range out {
		d := &out[i]
		if d.Limit == nil {
			continue
		}
		if allowed || !d.Allowed {
			s.count(d, 1)
		}
		if best == nil || mattersMore(d, best) {
			best = d
		}
	}
	if best == nil {
		return quota.Decision{}, NoRule
	}
	return *best, s.Prepared(best.Limit)
}

func mattersMore(a, b *quota.Decision) bool {
	switch {
	case a.Allowed != b.Allowed:
		return !a.Allowed
	case !a.Allowed:
		return a.RetryAfter > b.RetryAfter
	case a.Wait != b.Wait:
		return a.Wait > b.Wait
	}
	return a.Remaining < b.Remaining
}

// results returns one answer per check, the longest wait and, if the call was refused, the longest
// time until it could pass.
func (s *QuotaService) results(p *plan, allowed bool) (all []*quoratev1.AllowResponse, wait, retry *durationpb.Duration) {
	var longest, last time.Duration
	start := 0
	for _, end := range p.ends {
		d, r := s.result(p.out[start:end], allowed)
		start = end
		all = append(all, r.Response(&d))
		if allowed {
			longest = max(longest, d.Wait)
		} else if !d.Allowed {
			last = max(last, d.RetryAfter)
		}
	}
	if !allowed && last != apiproto.Never {
		retry = durationpb.New(last)
	}
	return all, apiproto.Pause(longest), retry
}

// AllowAll implements quoratev1.QuotaServiceServer.
func (s *QuotaService) AllowAll(_ context.Context, req *quoratev1.AllowAllRequest) (*quoratev1.AllowAllResponse, error) {
	p, err := s.planOf(req.Checks)
	if err != nil {
		return nil, err
	}
	allowed := len(p.reqs) == 0 || s.node.Decide(p.reqs, p.out)
	if err := s.noLimitIn(p); err != nil {
		return nil, err
	}
	res := &quoratev1.AllowAllResponse{Allowed: allowed}
	res.Results, res.Wait, res.RetryAfter = s.results(p, allowed)
	return res, nil
}

// planOf returns the plan of checks that are charged all or nothing.
func (s *QuotaService) planOf(reqs []*quoratev1.AllowRequest) (*plan, error) {
	if n := len(reqs); n < 1 || n > quota.MaxRequests {
		return nil, apierr.Invalid("checks", "%d checks; must be 1 to %d", n, quota.MaxRequests)
	}
	checks := make([]Check, len(reqs))
	for i, req := range reqs {
		if err := checks[i].From(req); err != nil {
			return nil, apierr.In(fmt.Sprintf("checks[%d]", i), err)
		}
	}
	return s.plan(checks, true)
}

// From reads a check from a message: a gRPC request, or one of several checks.
func (c *Check) From(req *quoratev1.AllowRequest) error {
	*c = Check{Cost: req.GetCost(), Costs: req.Cost != nil, Key: keyOf(req), Method: req.Method, Path: req.Path}
	if req.MaxWait != nil {
		c.Waits = true
		c.Wait = req.MaxWait.AsDuration()
		if c.Wait < 0 || c.Wait > quota.MaxPause {
			return apierr.Invalid("max_wait", "%v; must be 0 to %v", c.Wait, quota.MaxPause)
		}
	}
	return nil
}

// named is any request that names a key.
type named interface {
	GetNamespace() string
	GetLimit() string
	GetKey() string
}

func keyOf(m named) quota.Key {
	return quota.Key{LimitName: quota.LimitName{Namespace: m.GetNamespace(), Limit: m.GetLimit()}, Key: m.GetKey()}
}

// charged validates the key and the tokens of a call that changes a key's level.
func (s *QuotaService) charged(m named, field string, n int64) (quota.Key, error) {
	k := keyOf(m)
	if err := checkNamed(&k); err != nil {
		return k, err
	}
	if n < 1 || n > quota.MaxTokens {
		return k, apierr.Invalid(field, "%d; must be 1 to %d", n, quota.MaxTokens)
	}
	return k, nil
}

func checkNamed(k *quota.Key) error {
	if err := quota.CheckName("namespace", k.Namespace); err != nil {
		return apierr.InvalidName("namespace", err)
	}
	if err := quota.CheckName("limit", k.LimitName.Limit); err != nil {
		return apierr.InvalidName("limit", err)
	}
	return apiproto.CheckKey(&k.Key)
}

func oneOr(n *int64) int64 {
	if n == nil {
		return 1
	}
	return *n
}

// Refund implements quoratev1.QuotaServiceServer.
func (s *QuotaService) Refund(_ context.Context, req *quoratev1.RefundRequest) (*quoratev1.RefundResponse, error) {
	k, err := s.charged(req, "cost", oneOr(req.Cost))
	if err != nil {
		return nil, err
	}
	d := s.node.Refund(k, oneOr(req.Cost))
	if d.Limit == nil {
		return nil, s.missing(k)
	}
	return &quoratev1.RefundResponse{Limit: s.Prepared(d.Limit).PB, Remaining: d.Remaining}, nil
}

func (s *QuotaService) missing(k quota.Key) *apierr.Error {
	s.Meter.noLimit.Inc()
	return s.noLimit(k.LimitName)
}

// Report implements quoratev1.QuotaServiceServer.
func (s *QuotaService) Report(_ context.Context, req *quoratev1.ReportRequest) (*quoratev1.ReportResponse, error) {
	k, err := s.charged(req, "used", req.Used)
	if err != nil {
		return nil, err
	}
	booked, d := s.node.Charge(k, req.Used) // not counted as a decision
	if d.Limit == nil {
		return nil, s.missing(k)
	}
	return &quoratev1.ReportResponse{Booked: booked, Limit: s.Prepared(d.Limit).PB, Remaining: d.Remaining, RetryAfter: apiproto.Pause(d.RetryAfter), Why: quoratev1.Why(d.Why)}, nil
}
