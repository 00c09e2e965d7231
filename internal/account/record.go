package account

import (
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

// record is an account in the store. It is immutable: a change replaces it, and views and snapshots
// keep reading the old one.
type record struct {
	key       string
	balance   int64 // as of updated
	updated   quota.Time
	refilled  quota.Time
	policySet quota.Time
	policy    *policy // shared by all accounts that have it; nil means no policy
	version   uint64
	history   string // packed
}

// policy is a policy with its name. It is immutable.
type policy struct {
	Ref  PolicyRef
	Rule Policy
}

// expires returns when the account's lifetime ends; 0 is never.
func (r *record) expires() quota.Time {
	if r.policy == nil || r.policy.Rule.Lifetime <= 0 {
		return 0
	}
	return r.updated.Add(r.policy.Rule.Lifetime)
}

func (r *record) expired(at quota.Time) bool {
	e := r.expires()
	return e != 0 && e <= at
}

// state returns the account as of now.
func (r *record) state(now quota.Time, id ID) State {
	s := State{
		ID: id, Exists: true, Balance: r.balance, Projected: r.balance,
		Updated: r.updated, Refilled: r.refilled, Expires: r.expires(), Version: r.version,
	}
	if p := r.policy; p != nil {
		ref, rule := p.Ref, p.Rule
		s.Policy, s.Rule, s.PolicySet = &ref, &rule, r.policySet
		s.Projected = rule.refill(r.balance, r.updated, now)
		s.Next = rule.next(s.Projected, max(now, r.updated))
	}
	return s
}

// At returns the account as of a later time, if nothing changes it until then.
func (s State) At(now quota.Time) State {
	switch {
	case !s.Exists:
	case s.Expires != 0 && s.Expires <= now:
		return State{ID: s.ID, Holder: s.Holder}
	case s.Rule != nil:
		s.Projected = s.Rule.refill(s.Balance, s.Updated, now)
		s.Next = s.Rule.next(s.Projected, max(now, s.Updated))
	}
	return s
}

// String returns the policy's name for messages.
func (r PolicyRef) String() string {
	c, k := r.Config, r.Key
	return strings.Join([]string{c.App, c.Realm, c.Version}, "~") + " " + strings.Join([]string{k.Namespace, k.Name, k.Resource}, "~")
}

// expiry is an entry of an index that is ordered by time.
type expiry struct {
	at  quota.Time
	key string
}

func lessRecord(a, b *record) bool   { return a.key < b.key }
func lessApplied(a, b *applied) bool { return a.key < b.key }
func lessExpiry(a, b expiry) bool {
	return a.at < b.at || a.at == b.at && a.key < b.key
}
