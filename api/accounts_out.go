package api

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/apiproto"
)

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
	out := &quoratev1.AccountState{Id: apiproto.AccountID(s.ID)}
	if !s.Exists {
		return out
	}
	out.ProjectedBalance, out.NextRefillAt = s.Projected, apiproto.Time(s.Next)
	out.Account = &quoratev1.Account{
		Balance: s.Balance, UpdatedAt: apiproto.Time(s.Updated), PolicyChangedAt: apiproto.Time(s.PolicySet),
		PolicyId: apiproto.PolicyRef(s.Policy), Policy: policyProto(s.Rule), ExpiresAt: apiproto.Time(s.Expires), RefilledAt: apiproto.Time(s.Refilled),
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
		At: apiproto.Time(c.At), By: c.By, RequestId: c.RequestID, PreviousBalance: c.Previous, NewBalance: c.New, PolicyId: apiproto.PolicyRef(c.Policy),
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
		out.Policies = append(out.Policies, &quoratev1.PolicyEntry{Key: apiproto.PolicyKey(k), Policy: policyProto(&p)})
	}
	return out
}
