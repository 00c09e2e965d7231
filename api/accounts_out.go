package api

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/apiproto"
)

// AccountIDProto converts an account's id.
func AccountIDProto(id account.ID) *quoratev1.AccountID {
	return &quoratev1.AccountID{AppId: id.App, Realm: id.Realm, Identity: id.Identity, Namespace: id.Namespace, Name: id.Name, ResourceType: id.Resource}
}

// ConfigIDProto converts a policy config's id.
func ConfigIDProto(id account.ConfigID) *quoratev1.PolicyConfigID {
	return &quoratev1.PolicyConfigID{AppId: id.App, Realm: id.Realm, Version: id.Version}
}

// PolicyKeyProto converts the key of a policy within its config.
func PolicyKeyProto(k account.PolicyKey) *quoratev1.PolicyKey {
	return &quoratev1.PolicyKey{Namespace: k.Namespace, Name: k.Name, ResourceType: k.Resource}
}

// PolicyRefProto converts a reference to a policy of a config; nil stays nil.
func PolicyRefProto(r *account.PolicyRef) *quoratev1.PolicyID {
	if r == nil {
		return nil
	}
	return &quoratev1.PolicyID{Config: ConfigIDProto(r.Config), Key: PolicyKeyProto(r.Key)}
}

func policyProto(p *account.Policy) *quoratev1.Policy {
	if p == nil {
		return nil
	}
	out := &quoratev1.Policy{Default: uint64(p.Default), Limit: uint64(p.Limit), Options: int32(p.Options)}
	if p.Refill != (account.Refill{}) {
		out.Refill = &quoratev1.Refill{Units: p.Refill.Units, Interval: p.Refill.Interval, Offset: p.Refill.Offset}
	}
	if p.Lifetime > 0 {
		out.Lifetime = durationpb.New(p.Lifetime)
	}
	return out
}

func stateProto(s *account.State) *quoratev1.AccountState {
	out := &quoratev1.AccountState{Id: AccountIDProto(s.ID)}
	if !s.Exists {
		return out
	}
	out.ProjectedBalance, out.NextRefillAt = s.Projected, apiproto.Time(s.Next)
	out.Account = &quoratev1.Account{
		Balance: s.Balance, UpdatedAt: apiproto.Time(s.Updated), PolicyChangedAt: apiproto.Time(s.PolicySet),
		PolicyId: PolicyRefProto(s.Policy), Policy: policyProto(s.Rule), ExpiresAt: apiproto.Time(s.Expires), RefilledAt: apiproto.Time(s.Refilled),
	}
	return out
}

func statesProto(states []account.State) []*quoratev1.AccountState {
	out := make([]*quoratev1.AccountState, len(states))
	for i := range states {
		out[i] = stateProto(&states[i])
	}
	return out
}

func changeProto(c *account.Change) *quoratev1.AccountChange {
	return &quoratev1.AccountChange{
		At: apiproto.Time(c.At), By: c.By, RequestId: c.RequestID, PreviousBalance: c.Previous, NewBalance: c.New, PolicyId: PolicyRefProto(c.Policy),
	}
}

func resultsProto(results []account.Result) []*quoratev1.OpResult {
	out := make([]*quoratev1.OpResult, len(results))
	for i, r := range results {
		out[i] = &quoratev1.OpResult{
			NewBalance: r.New, PreviousBalance: r.Previous, PreviousBalanceAdjusted: r.Adjusted,
			Status: quoratev1.OpStatus(r.Status), StatusMsg: r.Message,
		}
		if r.Created {
			out[i].AccountStatus = quoratev1.AccountStatus_ACCOUNT_STATUS_CREATED
		}
	}
	return out
}

// ConfigProto converts the policies of a config, sorted by key.
func ConfigProto(policies map[account.PolicyKey]account.Policy) *quoratev1.PolicyConfig {
	out := &quoratev1.PolicyConfig{Policies: make([]*quoratev1.PolicyEntry, 0, len(policies))}
	for _, k := range slices.SortedFunc(maps.Keys(policies), account.PolicyKey.Compare) {
		p := policies[k]
		out.Policies = append(out.Policies, &quoratev1.PolicyEntry{Key: PolicyKeyProto(k), Policy: policyProto(&p)})
	}
	return out
}
