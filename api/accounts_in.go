package api

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/account"
)

// Bounds that the contract documents.
const (
	maxAccounts   = account.MaxPage // in one GetAccounts, and on a page
	usualAccounts = 100             // on a page, by default
)

// badAt turns an error of package account, whose text begins with a field's name, into an API error
// about that field below path.
func badAt(path string, err error) error {
	if err == nil {
		return nil
	}
	field, detail, _ := strings.Cut(err.Error(), ": ")
	return apierr.Invalid(apierr.Join(path, field), "%s", detail)
}

func accountID(path string, p *quoratev1.AccountID) (account.ID, error) {
	if p == nil {
		return account.ID{}, apierr.Invalid(path, "is missing; name the account by app_id, realm, identity, namespace, name and resource_type")
	}
	id := account.ID{App: p.AppId, Realm: p.Realm, Identity: p.Identity, Namespace: p.Namespace, Name: p.Name, Resource: p.ResourceType}
	return id, badAt(path, id.Validate())
}

func configID(path string, p *quoratev1.PolicyConfigID) (account.ConfigID, error) {
	if p == nil {
		return account.ConfigID{}, apierr.Invalid(path, "is missing; name the policy config by app_id, realm and version")
	}
	id := account.ConfigID{App: p.AppId, Realm: p.Realm, Version: p.Version}
	return id, badAt(path, id.Validate())
}

func policyKey(path string, p *quoratev1.PolicyKey) (account.PolicyKey, error) {
	if p == nil {
		return account.PolicyKey{}, apierr.Invalid(path, "is missing; name the policy by namespace, name and resource_type")
	}
	k := account.PolicyKey{Namespace: p.Namespace, Name: p.Name, Resource: p.ResourceType}
	return k, badAt(path, k.Validate())
}

func policyRef(path string, p *quoratev1.PolicyID) (ref account.PolicyRef, err error) {
	if ref.Config, err = configID(apierr.Join(path, "config"), p.Config); err == nil {
		ref.Key, err = policyKey(apierr.Join(path, "key"), p.Key)
	}
	return ref, err
}

// inRealm validates the other parts of an id in a request: app, realm, and parts that may be empty.
func inRealm(app, realm string, more ...atom) error {
	if err := badAt("", account.ConfigID{App: app, Realm: realm, Version: "#x"}.Validate()); err != nil {
		return err
	}
	for _, a := range more {
		if err := (account.PolicyKey{Namespace: a.value, Name: "x", Resource: "x"}).Validate(); err != nil {
			_, detail, _ := strings.Cut(err.Error(), ": ")
			return apierr.Invalid(a.field, "%s", detail)
		}
	}
	return nil
}

// atom is one part of an id and the name of its field.
type atom struct{ field, value string }

// accountPolicy validates a policy and returns it.
func accountPolicy(path string, p *quoratev1.Policy) (account.Policy, error) {
	switch {
	case p == nil:
		return account.Policy{}, apierr.Invalid(path, "is missing; give at least a limit")
	case p.Default > account.Most: // may overflow int64
		return account.Policy{}, apierr.Invalid(apierr.Join(path, "default"), "%d; must be 0 to the limit, %d", p.Default, p.Limit)
	case p.Limit > account.Most:
		return account.Policy{}, apierr.Invalid(apierr.Join(path, "limit"), "%d; must be 0 to %d", p.Limit, int64(account.Most))
	}
	out := account.Policy{Default: int64(p.Default), Limit: int64(p.Limit), Options: account.PolicyOptions(p.Options)}
	if r := p.Refill; r != nil {
		out.Refill = account.Refill{Units: r.Units, Interval: r.Interval, Offset: r.Offset}
	}
	if p.Lifetime != nil {
		out.Lifetime = p.Lifetime.AsDuration()
		if err := p.Lifetime.CheckValid(); err != nil || out.Lifetime <= 0 {
			return out, apierr.Invalid(apierr.Join(path, "lifetime"), "%v; must be above 0, or absent for accounts that never expire", out.Lifetime)
		}
	}
	return out, badAt(path, out.Validate())
}

// opsOf validates the operations of a call and returns them.
func opsOf(list []*quoratev1.Op) ([]account.Op, error) {
	if n := len(list); n < 1 || n > account.MaxOps {
		return nil, apierr.Invalid("ops", "%d operations; must be 1 to %d", n, account.MaxOps)
	}
	out := make([]account.Op, len(list))
	for i, p := range list {
		op, err := opOf(fmt.Sprintf("ops[%d]", i), p)
		if err != nil {
			return nil, err
		}
		out[i] = op
	}
	return out, nil
}

func opOf(path string, p *quoratev1.Op) (op account.Op, err error) {
	op = account.Op{RelativeTo: account.RelativeTo(p.GetRelativeTo()), Delta: p.GetDelta(), Options: account.OpOptions(p.GetOptions())}
	if op.Account, err = accountID(apierr.Join(path, "account_id"), p.GetAccountId()); err != nil {
		return op, err
	}
	if p.PolicyId != nil {
		ref, err := policyRef(apierr.Join(path, "policy_id"), p.PolicyId)
		if err != nil {
			return op, err
		}
		op.Policy = &ref
	}
	if quoratev1.RelativeTo_name[int32(p.RelativeTo)] == "" { // may overflow uint8
		return op, apierr.Invalid(apierr.Join(path, "relative_to"), "%d; must be 0 (CURRENT_BALANCE), 1 (ZERO), 2 (DEFAULT) or 3 (LIMIT)", p.RelativeTo)
	}
	return op, badAt(path, op.Validate())
}

// requestID validates the request id, and returns how long it is remembered.
func requestID(req *quoratev1.ApplyOpsRequest) (time.Duration, error) {
	switch id := req.RequestId; {
	case len(id) > account.MaxRequestID:
		return 0, apierr.Invalid("request_id", "is %d bytes; at most %d", len(id), account.MaxRequestID)
	case !utf8.ValidString(id):
		return 0, apierr.Invalid("request_id", "is not UTF-8")
	}
	if req.RequestIdTtl == nil {
		return account.DefaultTTL, nil
	}
	ttl := req.RequestIdTtl.AsDuration()
	if err := req.RequestIdTtl.CheckValid(); err != nil || ttl < time.Second || ttl > account.MaxTTL {
		return 0, apierr.Invalid("request_id_ttl", "%v; must be 1s to %v, or absent for %v", ttl, account.MaxTTL, account.DefaultTTL)
	}
	return ttl, nil
}

// policiesOf returns the policies of a config. Its error names all faulty policies, up to maxNamed.
func policiesOf(c *quoratev1.PolicyConfig) (map[account.PolicyKey]account.Policy, error) {
	list := c.GetPolicies()
	if n := len(list); n < 1 || n > account.MaxPolicies {
		return nil, apierr.Invalid("config.policies", "%d policies; must be 1 to %d", n, account.MaxPolicies)
	}
	out := make(map[account.PolicyKey]account.Policy, len(list))
	first := make(map[account.PolicyKey]int, len(list))
	var faults []error
	for i, e := range list {
		path := fmt.Sprintf("config.policies[%d]", i)
		k, err := policyKey(apierr.Join(path, "key"), e.GetKey())
		if err == nil {
			out[k], err = accountPolicy(apierr.Join(path, "policy"), e.GetPolicy())
		}
		if at, twice := first[k]; err == nil && twice {
			err = apierr.Invalid(apierr.Join(path, "key"), "repeats config.policies[%d]; must be unique", at)
		}
		if err != nil {
			faults = append(faults, err)
			continue
		}
		first[k] = i
	}
	return out, together(faults)
}

// maxNamed is the largest number of faulty policies that an error names.
const maxNamed = 20

// together joins faults into one: its field is the field of the first fault, and its text names all
// of them.
func together(faults []error) error {
	if len(faults) == 0 {
		return nil
	}
	f := apierr.From(faults[0])
	for i, more := range faults[1:] {
		if i == maxNamed-1 {
			f.Detail += fmt.Sprintf("; and %d more", len(faults)-maxNamed)
			break
		}
		f.Detail += "; " + more.Error()
	}
	return f
}
