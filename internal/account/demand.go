package account

import (
	"encoding/hex"
	"hash/fnv"
	"strings"
	"unicode/utf8"

	"github.com/quorate/quorate/internal/quota"
)

// Namespace is the namespace of the names under which accounts have a history. No limit can use it.
const Namespace = quota.AccountNamespace

// LimitName returns the name under which the history records the demand on accounts with this
// policy: @accounts/app~realm~namespace~name~type. All versions of the policy share it. A name
// longer than quota.MaxNameLen bytes is cut and ends with "~#" and 16 hex digits of a hash of the
// whole name.
func (r *PolicyRef) LimitName() quota.LimitName {
	name := strings.Join([]string{r.Config.App, r.Config.Realm, r.Key.Namespace, r.Key.Name, r.Key.Resource}, "~")
	return quota.LimitName{Namespace: Namespace, Limit: clipped(name)}
}

func clipped(name string) string {
	if len(name) <= quota.MaxNameLen {
		return name
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	end := "~#" + hex.EncodeToString(h.Sum(nil))
	cut := quota.MaxNameLen - len(end)
	for cut > 0 && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + end
}

// Demand returns how many units an operation takes out of an account: the absolute value of a
// negative delta on the balance. It is 0 for an operation that sets a balance or gives units back.
func (o *Op) Demand() int64 {
	if o.RelativeTo != Balance || o.Delta >= 0 {
		return 0
	}
	return -o.Delta
}

// under returns the policy that governs an operation, or nil.
func (a *draft) under(o *Op) *PolicyRef {
	switch {
	case o.Policy != nil:
		return o.Policy
	case a.policy != nil:
		return &a.policy.Ref
	}
	return nil
}

// policiesOf returns, per operation, the policy that its account has in records.
func policiesOf(ops []Op, records []*record) []*PolicyRef {
	out := make([]*PolicyRef, len(ops))
	if len(ops) == 1 && len(records) == 1 {
		if p := records[0].policy; p != nil {
			out[0] = &p.Ref
		}
		return out
	}
	byKey := make(map[string]*policy, len(records))
	for _, r := range records {
		byKey[r.key] = r.policy
	}
	for i := range ops {
		if p := byKey[ops[i].Account.key()]; p != nil {
			out[i] = &p.Ref
		}
	}
	return out
}
