package account

import (
	"fmt"

	"github.com/quorate/quorate/internal/quota"
)

// draft is a working copy of an account for the operations of one request.
type draft struct {
	record
	found    bool    // in the store, or made by an earlier operation
	before   *policy // the policy before the request
	previous int64   // balance before the request, after refill
	set      bool    // an operation changed the policy
}

// drafts holds the accounts of one request, each once, in order of first use.
type drafts struct {
	list  []*draft
	byKey map[string]*draft
	under []*PolicyRef // per operation
}

// open returns the draft of an account, empty if the account is missing. It applies the refills
// since the last change, under the policy that the account had.
func (d *drafts) open(s *Store, at quota.Time, key string) *draft {
	if a := d.byKey[key]; a != nil {
		return a
	}
	a := &draft{record: record{key: key, updated: at}}
	if r := s.find(key); r != nil && !r.expired(at) {
		a.record, a.found, a.before = *r, true, r.policy
		if a.policy != nil {
			if b := a.policy.Rule.refill(a.balance, a.updated, at); b != a.balance {
				a.balance, a.refilled = b, at
			}
		}
		a.updated = at
		a.previous = a.balance
	}
	d.list = append(d.list, a)
	d.byKey[key] = a
	return a
}

// attempt runs all operations of a request on drafts. A failed operation leaves its draft unchanged
// for the later ones. ok reports that none failed.
func (s *Store) attempt(at quota.Time, r *Request) (d drafts, results []Result, ok bool) {
	d.byKey = make(map[string]*draft, min(len(r.Ops), 64))
	results, d.under = make([]Result, len(r.Ops)), make([]*PolicyRef, len(r.Ops))
	ok = true
	for i := range r.Ops {
		o := &r.Ops[i]
		if err := o.Validate(); err != nil {
			results[i] = Result{Status: Unknown, Message: err.Error()}
			ok = false
			continue
		}
		a := d.open(s, at, o.Account.key())
		d.under[i] = a.under(o)
		results[i] = a.apply(at, o)
		ok = ok && results[i].Status == Success
	}
	return d, results, ok
}

// apply runs one operation. It changes a only if the operation succeeds.
func (a *draft) apply(at quota.Time, o *Op) Result {
	res := Result{Previous: a.balance, Adjusted: a.balance, Created: !a.found}
	next := *a
	if o.Policy != nil {
		if o.Rule == nil {
			return res.failed(UnknownPolicy, fmt.Sprintf("policy %s is not loaded", o.Policy))
		}
		res.Adjusted += next.setPolicy(at, o)
	}
	proposed, status, message := next.propose(o)
	if status == Success {
		next.balance, status, message = next.settle(o, proposed)
	}
	if status == Success {
		status, message = within(res.Adjusted, next.balance)
	}
	if status != Success {
		return res.failed(status, message)
	}
	next.found = true
	*a = next
	res.New = a.balance
	return res
}

func (r Result) failed(s Status, message string) Result {
	r.Status, r.Message = s, message
	return r
}

// setPolicy sets an operation's policy. A new account gets the policy's default. An existing
// account keeps its balance, plus the difference of the limits if the operation asks for that;
// setPolicy returns the difference.
func (a *draft) setPolicy(at quota.Time, o *Op) (added int64) {
	if a.policy == nil || a.policy.Ref != *o.Policy {
		if o.Options&WithPolicyLimitDelta != 0 && a.policy != nil {
			added = o.Rule.Limit - a.policy.Rule.Limit
			a.balance += added
		}
		a.policy = &policy{Ref: *o.Policy, Rule: *o.Rule}
		a.policySet, a.set = at, true
	}
	if !a.found {
		a.balance = a.policy.Rule.Default
	}
	if rule := &a.policy.Rule; rule.Refill.always() {
		a.balance = max(a.balance, rule.Limit)
	}
	return added
}

// propose computes the balance that an operation asks for, before the policy's bounds.
func (a *draft) propose(o *Op) (int64, Status, string) {
	switch {
	case o.RelativeTo == Zero:
		return o.Delta, Success, ""
	case !a.found && a.policy == nil:
		return 0, MissingAccount, "the account does not exist, and the operation names no policy to create it with"
	case o.RelativeTo == Balance:
		return a.balance + o.Delta, Success, ""
	case a.policy == nil:
		return 0, PolicyRequired, "relative to a policy's amount, and neither the account nor the operation has a policy"
	case o.RelativeTo == Default:
		return a.policy.Rule.Default + o.Delta, Success, ""
	default:
		return a.policy.Rule.Limit + o.Delta, Success, ""
	}
}

// settle applies the bounds of the account's policy to a proposed balance.
func (a *draft) settle(o *Op, proposed int64) (int64, Status, string) {
	if o.Options&IgnorePolicyBounds != 0 {
		return proposed, Success, ""
	}
	if a.policy == nil {
		return 0, PolicyRequired, "neither the account nor the operation has a policy; IGNORE_POLICY_BOUNDS does without"
	}
	limit := a.policy.Rule.Limit
	if o.Options&DoNotCapProposed == 0 {
		most := limit
		if o.RelativeTo == Balance && o.Delta >= 0 {
			most = max(limit, a.balance) // a credit never lowers a balance above the limit
		}
		proposed = min(proposed, most)
	}
	switch {
	case proposed >= 0 && proposed <= limit:
		if a.policy.Rule.Refill.always() {
			return limit, Success, ""
		}
	case proposed < 0 && proposed < a.balance:
		return 0, Underflow, fmt.Sprintf("the balance would be %d; it is %d, and must not fall below 0", proposed, a.balance)
	case proposed > limit && proposed > a.balance:
		return 0, Overflow, fmt.Sprintf("the balance would be %d; it is %d, and must not exceed the limit, %d", proposed, a.balance, limit)
	}
	return proposed, Success, "" // in bounds, or closer to them
}

// within checks that amounts are within ±Most.
func within(amounts ...int64) (Status, string) {
	for _, v := range amounts {
		if v > Most {
			return Overflow, fmt.Sprintf("the balance would be %d; at most %d", v, int64(Most))
		}
		if v < -Most {
			return Underflow, fmt.Sprintf("the balance would be %d; at least %d", v, int64(-Most))
		}
	}
	return Success, ""
}

// records returns the records to store, without versions: commit assigns them.
func (d *drafts) records(at quota.Time, r *Request) []*record {
	list := make([]*record, len(d.list))
	for i, a := range d.list {
		c := Change{At: at, By: r.By, RequestID: r.ID, Previous: a.previous, New: a.balance}
		if a.set {
			c.Policy = &a.policy.Ref
		}
		rec := a.record
		rec.history = addChange(rec.history, a.before, rec.policy, c)
		list[i] = &rec
	}
	return list
}
