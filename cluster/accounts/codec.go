package accounts

import (
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

func encodeOutcome(o *account.Outcome, err error) *peerv1.AccountOutcome {
	if err != nil {
		fault, reason := faultOf(err)
		return &peerv1.AccountOutcome{Fault: fault, Reason: reason}
	}
	out := &peerv1.AccountOutcome{Code: uint32(o.Code), AtUnixNanos: int64(o.At), Message: o.Message}
	out.Holder, out.HolderHome = encodeTx(o.Holder)
	for i := range o.Results {
		r := &o.Results[i]
		pb := &peerv1.AccountResult{
			New: r.New, Previous: r.Previous, Adjusted: r.Adjusted, Created: r.Created, Status: uint32(r.Status), Message: r.Message,
		}
		if i < len(o.Under) {
			pb.Under = encodePolicy(o.Under[i], nil)
		}
		out.Results = append(out.Results, pb)
	}
	return out
}

func decodeOutcome(o *peerv1.AccountOutcome) (account.Outcome, error) {
	if err := faultError(o.GetFault(), o.GetReason()); err != nil {
		return account.Outcome{}, err
	}
	out := account.Outcome{
		Code: account.Code(min(o.GetCode(), 255)), At: quota.Time(o.GetAtUnixNanos()), Message: o.GetMessage(),
		Holder: decodeTx(o.GetHolder(), o.GetHolderHome()),
	}
	for _, r := range o.GetResults() {
		out.Results = append(out.Results, account.Result{
			New: r.GetNew(), Previous: r.GetPrevious(), Adjusted: r.GetAdjusted(), Created: r.GetCreated(),
			Status: account.Status(min(r.GetStatus(), 255)), Message: r.GetMessage(),
		})
		under, _ := decodePolicy(r.GetUnder())
		out.Under = append(out.Under, under)
	}
	return out, nil
}

func encodeTx(tx account.Tx) (id []byte, home uint32) {
	if tx == (account.Tx{}) {
		return nil, 0
	}
	return tx.ID[:], uint32(tx.Home)
}

func decodeTx(id []byte, home uint32) (tx account.Tx) {
	if len(id) == len(tx.ID) {
		copy(tx.ID[:], id)
		tx.Home = quota.RangeID(home)
	}
	return tx
}

func encodeID(id account.ID) *peerv1.AccountName {
	return &peerv1.AccountName{
		App: id.App, Realm: id.Realm, Identity: id.Identity, Namespace: id.Namespace, Name: id.Name, Resource: id.Resource,
	}
}

func decodeID(n *peerv1.AccountName) account.ID {
	return account.ID{
		App: n.GetApp(), Realm: n.GetRealm(), Identity: n.GetIdentity(), Namespace: n.GetNamespace(), Name: n.GetName(), Resource: n.GetResource(),
	}
}

func encodeRealm(r account.Realm) *peerv1.AccountRealm {
	return &peerv1.AccountRealm{App: r.App, Realm: r.Name}
}

func decodeRealm(r *peerv1.AccountRealm) account.Realm {
	return account.Realm{App: r.GetApp(), Name: r.GetRealm(), Accounts: true}
}

func encodeFilter(f *account.Filter, after account.ID, limit int) *peerv1.AccountFilter {
	return &peerv1.AccountFilter{
		App: f.App, Realm: f.Realm, Identity: f.Identity, Namespace: f.Namespace, NamePrefix: f.NamePrefix, Resource: f.Resource,
		After: encodeID(after), Limit: int32(limit),
	}
}

func decodeFilter(f *peerv1.AccountFilter) (filter account.Filter, after account.ID, limit int) {
	return account.Filter{
		App: f.GetApp(), Realm: f.GetRealm(), Identity: f.Identity, Namespace: f.Namespace, NamePrefix: f.GetNamePrefix(), Resource: f.GetResource(),
	}, decodeID(f.GetAfter()), int(min(max(f.GetLimit(), 0), maxPage))
}

func encodeState(s *account.State) *peerv1.AccountView {
	out := &peerv1.AccountView{
		Id: encodeID(s.ID), Exists: s.Exists, Balance: s.Balance, Projected: s.Projected, Updated: int64(s.Updated), Refilled: int64(s.Refilled),
		Expires: int64(s.Expires), Policy: encodePolicy(s.Policy, s.Rule), PolicySet: int64(s.PolicySet), Next: int64(s.Next), Version: s.Version,
	}
	out.Holder, out.HolderHome = encodeTx(s.Holder)
	for i := range s.History {
		c := &s.History[i]
		out.History = append(out.History, &peerv1.AccountChange{
			AtUnixNanos: int64(c.At), By: c.By, RequestId: c.RequestID, Previous: c.Previous, New: c.New, Policy: encodePolicy(c.Policy, nil),
		})
	}
	return out
}

func decodeState(v *peerv1.AccountView) account.State {
	out := account.State{
		ID: decodeID(v.GetId()), Exists: v.GetExists(), Balance: v.GetBalance(), Projected: v.GetProjected(), Updated: quota.Time(v.GetUpdated()),
		Refilled: quota.Time(v.GetRefilled()), Expires: quota.Time(v.GetExpires()), PolicySet: quota.Time(v.GetPolicySet()), Next: quota.Time(v.GetNext()),
		Version: v.GetVersion(), Holder: decodeTx(v.GetHolder(), v.GetHolderHome()),
	}
	out.Policy, out.Rule = decodePolicy(v.GetPolicy())
	for _, c := range v.GetHistory() {
		change := account.Change{At: quota.Time(c.GetAtUnixNanos()), By: c.GetBy(), RequestID: c.GetRequestId(), Previous: c.GetPrevious(), New: c.GetNew()}
		change.Policy, _ = decodePolicy(c.GetPolicy())
		out.History = append(out.History, change)
	}
	return out
}

func encodePolicy(ref *account.PolicyRef, rule *account.Policy) *peerv1.AccountPolicy {
	if ref == nil {
		return nil
	}
	out := &peerv1.AccountPolicy{
		App: ref.Config.App, Realm: ref.Config.Realm, Version: ref.Config.Version,
		Namespace: ref.Key.Namespace, Name: ref.Key.Name, Resource: ref.Key.Resource,
	}
	if rule != nil {
		out.Rule = &peerv1.AccountRule{
			Default: rule.Default, Limit: rule.Limit, RefillUnits: rule.Refill.Units, RefillInterval: rule.Refill.Interval, RefillOffset: rule.Refill.Offset,
			Options: int32(rule.Options), LifetimeNanos: int64(rule.Lifetime),
		}
	}
	return out
}

func decodePolicy(p *peerv1.AccountPolicy) (*account.PolicyRef, *account.Policy) {
	if p == nil {
		return nil, nil
	}
	ref := &account.PolicyRef{
		Config: account.ConfigID{App: p.GetApp(), Realm: p.GetRealm(), Version: p.GetVersion()},
		Key:    account.PolicyKey{Namespace: p.GetNamespace(), Name: p.GetName(), Resource: p.GetResource()},
	}
	r := p.GetRule()
	if r == nil {
		return ref, nil
	}
	return ref, &account.Policy{
		Default: r.GetDefault(), Limit: r.GetLimit(), Lifetime: time.Duration(r.GetLifetimeNanos()), Options: account.PolicyOptions(r.GetOptions()),
		Refill: account.Refill{Units: r.GetRefillUnits(), Interval: r.GetRefillInterval(), Offset: r.GetRefillOffset()},
	}
}
