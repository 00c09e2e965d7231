package api

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/account"
)

// Bounds that the contract names.
const (
	maxAccounts   = 1000 // in one GetAccounts, and on a page
	usualAccounts = 100  // on a page when not said
)

// checkAtom validates a part of an id.
func checkAtom(field, s string, empty bool) *fault {
	switch {
	case s == "" && !empty:
		return badField(field, "is empty; must be 1 to %d bytes", account.MaxAtom)
	case len(s) > account.MaxAtom:
		return badField(field, "is %d bytes; at most %d", len(s), account.MaxAtom)
	case !utf8.ValidString(s):
		return badField(field, "is not UTF-8")
	case strings.Contains(s, "~"):
		return badField(field, "%q has '~', which separates the parts of an id; leave it out", clip(s))
	case strings.ContainsFunc(s, unicode.IsControl):
		return badField(field, "%q has a control character; leave it out", clip(s))
	}
	return nil
}

// atom is one part of an id, by its field.
type atom struct {
	field, value string
	empty        bool // may be
}

func checkAtoms(path string, atoms ...atom) *fault {
	for _, a := range atoms {
		if f := checkAtom(join(path, a.field), a.value, a.empty); f != nil {
			return f
		}
	}
	return nil
}

func accountID(path string, p *quoratev1.AccountID) (account.ID, *fault) {
	if p == nil {
		return account.ID{}, badField(path, "is missing; name the account by app_id, realm, identity, namespace, name and resource_type")
	}
	id := account.ID{App: p.AppId, Realm: p.Realm, Identity: p.Identity, Namespace: p.Namespace, Name: p.Name, Resource: p.ResourceType}
	return id, checkAtoms(path, atom{"app_id", id.App, false}, atom{"realm", id.Realm, false}, atom{"identity", id.Identity, true},
		atom{"namespace", id.Namespace, true}, atom{"name", id.Name, false}, atom{"resource_type", id.Resource, false})
}

func configID(path string, p *quoratev1.PolicyConfigID) (account.ConfigID, *fault) {
	if p == nil {
		return account.ConfigID{}, badField(path, "is missing; name the policy config by app_id, realm and version")
	}
	id := account.ConfigID{App: p.AppId, Realm: p.Realm, Version: p.Version}
	if f := checkAtoms(path, atom{"app_id", id.App, false}, atom{"realm", id.Realm, false}, atom{"version", id.Version, false}); f != nil {
		return id, f
	}
	if len(id.Version) < 2 || id.Version[0] != '$' && id.Version[0] != '#' {
		return id, badField(join(path, "version"), `is %q; must be "$" and a hash of the content, or "#" and the name that it was loaded under`, clip(id.Version))
	}
	return id, nil
}

func policyKey(path string, p *quoratev1.PolicyKey) (account.PolicyKey, *fault) {
	if p == nil {
		return account.PolicyKey{}, badField(path, "is missing; name the policy by namespace, name and resource_type")
	}
	k := account.PolicyKey{Namespace: p.Namespace, Name: p.Name, Resource: p.ResourceType}
	return k, checkAtoms(path, atom{"namespace", k.Namespace, true}, atom{"name", k.Name, false}, atom{"resource_type", k.Resource, false})
}

func policyRef(path string, p *quoratev1.PolicyID) (ref account.PolicyRef, f *fault) {
	if ref.Config, f = configID(join(path, "config"), p.Config); f == nil {
		ref.Key, f = policyKey(join(path, "key"), p.Key)
	}
	return ref, f
}

// accountPolicy reads and validates a policy.
func accountPolicy(path string, p *quoratev1.Policy) (account.Policy, *fault) {
	if p == nil {
		return account.Policy{}, badField(path, "is missing; give at least a limit")
	}
	switch {
	case p.Default > account.Most:
		return account.Policy{}, badField(join(path, "default"), "%d; must be 0 to %d", p.Default, int64(account.Most))
	case p.Limit > account.Most:
		return account.Policy{}, badField(join(path, "limit"), "%d; must be 0 to %d", p.Limit, int64(account.Most))
	case p.Options&^int32(account.AbsoluteResource) != 0:
		return account.Policy{}, badField(join(path, "options"), "%d; must be 0, or 1 for ABSOLUTE_RESOURCE", p.Options)
	}
	out := account.Policy{Default: int64(p.Default), Limit: int64(p.Limit), Options: account.PolicyOptions(p.Options)}
	if r := p.Refill; r != nil {
		out.Refill = account.Refill{Units: r.Units, Interval: r.Interval, Offset: r.Offset}
		if f := checkRefill(join(path, "refill"), out.Refill); f != nil {
			return out, f
		}
	}
	if p.Lifetime != nil {
		if err := p.Lifetime.CheckValid(); err != nil || p.Lifetime.AsDuration() <= 0 {
			return out, badField(join(path, "lifetime"), "%v; must be above 0, or absent for accounts that last for ever", p.Lifetime.AsDuration())
		}
		out.Lifetime = p.Lifetime.AsDuration()
	}
	return out, nil
}

const day = 86_400 // seconds

func checkRefill(path string, r account.Refill) *fault {
	switch {
	case r.Units < -account.Most || r.Units > account.Most:
		return badField(join(path, "units"), "%d; must be %d to %d", r.Units, -int64(account.Most), int64(account.Most))
	case r.Interval != 0 && day%r.Interval != 0:
		return badField(join(path, "interval"), "%d seconds do not divide a day; must be a divisor of 86400, such as 3600, 21600 or 86400, or 0 for at once", r.Interval)
	case r.Offset >= day:
		return badField(join(path, "offset"), "%d; must be 0 to 86399 seconds after midnight UTC", r.Offset)
	}
	return nil
}

// opsOf reads and validates the operations of a call.
func opsOf(list []*quoratev1.Op) ([]account.Op, *fault) {
	if n := len(list); n < 1 || n > account.MaxOps {
		return nil, badField("ops", "%d operations; must be 1 to %d", n, account.MaxOps)
	}
	out := make([]account.Op, len(list))
	for i, p := range list {
		op, f := opOf(fmt.Sprintf("ops[%d]", i), p)
		if f != nil {
			return nil, f
		}
		out[i] = op
	}
	return out, nil
}

const allOptions = account.IgnorePolicyBounds | account.DoNotCapProposed | account.WithPolicyLimitDelta

func opOf(path string, p *quoratev1.Op) (op account.Op, f *fault) {
	op = account.Op{RelativeTo: account.RelativeTo(p.GetRelativeTo()), Delta: p.GetDelta(), Options: account.OpOptions(p.GetOptions())}
	if op.Account, f = accountID(join(path, "account_id"), p.GetAccountId()); f != nil {
		return op, f
	}
	if p.PolicyId != nil {
		ref, f := policyRef(join(path, "policy_id"), p.PolicyId)
		if f != nil {
			return op, f
		}
		if ref.Key.Resource != op.Account.Resource {
			return op, badField(join(path, "policy_id.key.resource_type"), "is %q, but the account counts %q; must be the same", clip(ref.Key.Resource), clip(op.Account.Resource))
		}
		op.Policy = &ref
	}
	switch {
	case quoratev1.RelativeTo_name[int32(p.RelativeTo)] == "":
		f = badField(join(path, "relative_to"), "%d; must be current_balance (0), zero (1), default (2) or limit (3)", p.RelativeTo)
	case op.Delta < -account.MostDelta || op.Delta > account.MostDelta:
		f = badField(join(path, "delta"), "%d; must be %d to %d", op.Delta, int64(-account.MostDelta), int64(account.MostDelta))
	case op.Options&^allOptions != 0:
		f = badField(join(path, "options"), "%d; must be a sum of 1 (IGNORE_POLICY_BOUNDS), 2 (DO_NOT_CAP_PROPOSED) and 4 (WITH_POLICY_LIMIT_DELTA)", op.Options)
	case op.Options&account.IgnorePolicyBounds != 0 && op.Options&account.DoNotCapProposed != 0:
		f = badField(join(path, "options"), "%d is both IGNORE_POLICY_BOUNDS (1) and DO_NOT_CAP_PROPOSED (2); give one of them", op.Options)
	}
	return op, f
}

// requestID validates what a call is called, and how long that is remembered.
func requestID(req *quoratev1.ApplyOpsRequest) (time.Duration, *fault) {
	switch id := req.RequestId; {
	case len(id) > account.MaxRequestID:
		return 0, badField("request_id", "is %d bytes; at most %d", len(id), account.MaxRequestID)
	case !utf8.ValidString(id):
		return 0, badField("request_id", "is not UTF-8")
	}
	if req.RequestIdTtl == nil {
		return account.DefaultTTL, nil
	}
	ttl := req.RequestIdTtl.AsDuration()
	if err := req.RequestIdTtl.CheckValid(); err != nil || ttl < time.Second || ttl > account.MaxTTL {
		return 0, badField("request_id_ttl", "%v; must be 1s to %v, or absent for %v", ttl, account.MaxTTL, account.DefaultTTL)
	}
	return ttl, nil
}

// policiesOf reads the policies of a config; its error names all faulty ones.
func policiesOf(c *quoratev1.PolicyConfig) (map[account.PolicyKey]account.Policy, *fault) {
	list := c.GetPolicies()
	if n := len(list); n < 1 || n > account.MaxPolicies {
		return nil, badField("config.policies", "%d policies; must be 1 to %d", n, account.MaxPolicies)
	}
	out := make(map[account.PolicyKey]account.Policy, len(list))
	first := make(map[account.PolicyKey]int, len(list))
	var faults []*fault
	for i, e := range list {
		path := fmt.Sprintf("config.policies[%d]", i)
		k, f := policyKey(join(path, "key"), e.GetKey())
		if f == nil {
			out[k], f = accountPolicy(join(path, "policy"), e.GetPolicy())
		}
		if at, twice := first[k]; f == nil && twice {
			f = badField(join(path, "key"), "is that of config.policies[%d]; must be a key of its own", at)
		}
		if f != nil {
			faults = append(faults, f)
			continue
		}
		first[k] = i
	}
	return out, together(faults)
}

// maxNamed bounds the faulty policies that an error names.
const maxNamed = 20

// together is one fault of several fields: the first is the field at fault, and
// the text names them all.
func together(faults []*fault) *fault {
	if len(faults) == 0 {
		return nil
	}
	f := faults[0]
	for i, more := range faults[1:] {
		if i == maxNamed-1 {
			f.detail += fmt.Sprintf("; and %d more", len(faults)-maxNamed)
			break
		}
		f.detail += "; " + more.Error()
	}
	return f
}
