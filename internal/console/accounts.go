package console

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/rbac"
)

const accountsOnPage = 50

// accountPages returns the pages for owners of durable quotas.
func accountPages() []Page {
	return []Page{
		{Path: "accounts", Title: "Accounts", Group: "Quotas", Template: "accounts", Need: rbac.AccountsList, Load: loadAccounts},
		{Path: "account", Title: "Account", Template: "account", Need: rbac.AccountsRead, Load: loadAccount, Live: []string{"balance"}, Actions: map[string]Action{"apply": applyOp}},
		{Path: "policies", Title: "Policies", Group: "Quotas", Template: "policies", Need: rbac.PoliciesRead, Load: loadPolicies},
	}
}

// realmList is a page of the realms that have accounts or policies.
type realmList struct {
	Page    string // where the name of a realm leads
	Realms  []*quoratev1.RealmSummary
	Next    string
	Later   bool // not the first page
	Problem *Problem
}

func loadRealms(r *Request, page string) (*realmList, error) {
	l := &realmList{Page: page, Later: r.Query("after") != ""}
	res, err := r.Accounts.ListRealms(r.Context(), &quoratev1.ListRealmsRequest{PageSize: accountsOnPage, PageToken: r.Query("after")})
	if err != nil {
		l.Problem = problemOf(err)
		return l, nil
	}
	l.Realms = res.Realms
	if res.NextPageToken != "" {
		l.Next, err = link(page, "after", res.NextPageToken)
	}
	return l, err
}

// accountList is the data of the page of accounts.
type accountList struct {
	App, Realm, Identity, Namespace, Prefix string
	Asked                                   bool
	All                                     *realmList // without an application and a realm
	Accounts                                []*quoratev1.AccountState
	Next                                    string
	Later                                   bool // not the first page
	Problem                                 *Problem
}

// Filtered reports whether the page shows part of the realm.
func (l *accountList) Filtered() bool { return l.Identity != "" || l.Namespace != "" || l.Prefix != "" }

func loadAccounts(r *Request) (any, error) {
	l := &accountList{App: r.Query("app"), Realm: r.Query("realm"), Identity: r.Query("identity"), Namespace: r.Query("namespace"), Prefix: r.Query("name"), Later: r.Query("after") != ""}
	if l.App == "" || l.Realm == "" {
		var err error
		l.All, err = loadRealms(r, "accounts")
		return l, err
	}
	l.Asked = true
	req := &quoratev1.ListAccountsRequest{AppId: l.App, Realm: l.Realm, NamePrefix: l.Prefix, PageSize: accountsOnPage, PageToken: r.Query("after")}
	if l.Identity != "" {
		req.Identity = &l.Identity
	}
	if l.Namespace != "" {
		req.Namespace = &l.Namespace
	}
	res, err := r.Accounts.ListAccounts(r.Context(), req)
	if err != nil {
		l.Problem = problemOf(err)
		return l, nil
	}
	l.Accounts = res.Accounts
	if res.NextPageToken != "" {
		l.Next, err = link("accounts", "app", l.App, "realm", l.Realm, "identity", l.Identity, "namespace", l.Namespace, "name", l.Prefix, "after", res.NextPageToken)
	}
	return l, err
}

// accountWord formats an account's ID in one word, as on the command line.
func accountWord(id *quoratev1.AccountID) string {
	return strings.Join([]string{id.GetAppId(), id.GetRealm(), id.GetIdentity(), id.GetNamespace(), id.GetName(), id.GetResourceType()}, "~")
}

// accountOf parses the result of accountWord.
func accountOf(word string) (*quoratev1.AccountID, error) {
	p := strings.Split(word, "~")
	if len(p) != 6 {
		return nil, &Problem{Status: http.StatusBadRequest, Title: "Invalid account", Detail: fmt.Sprintf("%q has %s; must be app~realm~identity~namespace~name~type.", phrase.Clip(word, 200), phrase.Plural(len(p), "part")), Field: "id"}
	}
	return &quoratev1.AccountID{AppId: p[0], Realm: p[1], Identity: p[2], Namespace: p[3], Name: p[4], ResourceType: p[5]}, nil
}

// accountPage is the data of the page of one account.
type accountPage struct {
	Word     string
	ID       *quoratev1.AccountID
	State    *quoratev1.AccountState
	Changes  []accountChange
	Problem  *Problem // why there is no history
	MayWrite bool
}

// accountChange is a change, with the balance before it.
type accountChange struct {
	*quoratev1.AccountChange
	Created bool // it created the account: the balance before is the default of the account's policy
	Known   bool // Before is known
	Before  int64
}

// changesOf returns the changes with the balances before them.
func changesOf(list []*quoratev1.AccountChange, now *quoratev1.Account) []accountChange {
	out := make([]accountChange, len(list))
	for i, c := range list {
		out[i] = accountChange{AccountChange: c, Known: true, Before: c.PreviousBalance}
		if !account.CreatedBy(i, len(list), c.PreviousBalance) {
			continue
		}
		out[i].Created, out[i].Before = true, int64(min(now.GetPolicy().GetDefault(), math.MaxInt64))
		out[i].Known = c.PolicyId != nil && proto.Equal(c.PolicyId, now.GetPolicyId())
	}
	return out
}

// Policy describes the account's policy.
func (a *accountPage) Policy() string { return policyText(a.State.GetAccount().GetPolicy()) }

// Full returns the balance as a fraction of the limit, 0 to 1.
func (a *accountPage) Full() float64 {
	limit := a.State.GetAccount().GetPolicy().GetLimit()
	if limit == 0 {
		return 0
	}
	return max(0, min(1, float64(a.State.ProjectedBalance)/float64(limit)))
}

func policyText(p *quoratev1.Policy) string {
	if p == nil {
		return "none"
	}
	out := fmt.Sprintf("starts with %s, at most %s", num(p.Default), num(p.Limit))
	if f := p.Refill; f.GetUnits() != 0 {
		if f.Interval == 0 {
			out += ", always full"
		} else {
			out += fmt.Sprintf(", %+d every %s", f.Units, dur(time.Duration(f.Interval)*time.Second))
		}
	}
	if p.Lifetime != nil {
		out += ", deleted " + dur(p.Lifetime) + " after its last change"
	}
	return out
}

func loadAccount(r *Request) (any, error) {
	id, err := accountOf(r.URL.Query().Get("id"))
	if err != nil {
		return nil, err
	}
	a := &accountPage{Word: accountWord(id), ID: id, MayWrite: r.May(rbac.AccountsWrite)}
	res, err := r.Accounts.GetAccounts(r.Context(), &quoratev1.GetAccountsRequest{Accounts: []*quoratev1.AccountID{id}})
	if err != nil {
		return nil, err
	}
	if len(res.Accounts) > 0 {
		a.State = res.Accounts[0]
	}
	past, err := r.Accounts.GetAccountHistory(r.Context(), &quoratev1.GetAccountHistoryRequest{AccountId: id})
	if err != nil {
		a.Problem = problemOf(err)
		return a, nil
	}
	a.Changes = changesOf(past.Changes, a.State.GetAccount())
	return a, nil
}

// applyOp applies one operation once.
var applyOp = Action{
	Confirm: func(r *Request) (*Confirmation, error) {
		if _, err := accountOf(r.PostForm.Get("id")); err != nil {
			return nil, err
		}
		form := func(name string) string { return r.PostForm.Get(name) }
		request := form("request")
		if request == "" {
			request = newRequestID()
		}
		return &Confirmation{
			Title: "Apply an operation", Button: "Apply",
			Will: []string{"The balance of " + phrase.Clip(form("id"), 300) + " changes once a majority of its replicas has stored it.", "A request id is applied once, even if it is sent again."},
			Fields: append(
				Hidden(r, "id"),
				Field{Name: "relative", Label: "Relative to", Type: "select", Value: form("relative"), Options: []Option{{"current", "the current balance"}, {"zero", "zero: the amount becomes the balance"}, {"default", "the policy's default"}, {"limit", "the policy's limit"}}},
				Field{Name: "delta", Label: "Amount", Type: "number", Value: form("delta"), Required: true, Hint: "Units to add; a negative amount subtracts."},
				Field{Name: "ignore", Label: "Ignore the bounds, 0 and the limit", Type: "checkbox", Value: form("ignore")},
				Field{Name: "request", Label: "Request id", Type: "text", Value: request, Required: true, Hint: "The idempotency key, at most 256 bytes."},
			),
		}, nil
	},
	Do: doOp,
}

func newRequestID() string {
	var raw [8]byte
	_, _ = rand.Read(raw[:])
	return "console-" + hex.EncodeToString(raw[:])
}

var relativeWords = map[string]quoratev1.RelativeTo{
	"current": quoratev1.RelativeTo_RELATIVE_TO_CURRENT_BALANCE, "zero": quoratev1.RelativeTo_RELATIVE_TO_ZERO,
	"default": quoratev1.RelativeTo_RELATIVE_TO_DEFAULT, "limit": quoratev1.RelativeTo_RELATIVE_TO_LIMIT,
}

func doOp(r *Request) (*Result, error) {
	id, err := accountOf(r.PostForm.Get("id"))
	if err != nil {
		return nil, err
	}
	delta, err := strconv.ParseInt(strings.TrimSpace(r.PostForm.Get("delta")), 10, 64)
	if err != nil {
		return nil, wrongField("delta", r.PostForm.Get("delta"), "a whole number, such as -5")
	}
	relative, ok := relativeWords[r.PostForm.Get("relative")]
	if !ok {
		return nil, wrongField("relative", r.PostForm.Get("relative"), "current, zero, default or limit")
	}
	request := strings.TrimSpace(r.PostForm.Get("request"))
	if request == "" {
		return nil, wrongField("request", "", "an id")
	}
	op := &quoratev1.Op{AccountId: id, RelativeTo: relative, Delta: delta}
	if r.PostForm.Get("ignore") != "" {
		op.Options = uint32(quoratev1.OpOption_OP_OPTION_IGNORE_POLICY_BOUNDS)
	}
	res, err := r.Accounts.ApplyOps(r.Context(), &quoratev1.ApplyOpsRequest{RequestId: request, Ops: []*quoratev1.Op{op}})
	if err != nil {
		return nil, err
	}
	return opResult(res)
}

// opResult describes the outcome of an operation.
func opResult(res *quoratev1.ApplyOpsResponse) (*Result, error) {
	if len(res.Results) == 0 {
		return nil, &Problem{Status: http.StatusInternalServerError, Title: "Something went wrong", Detail: "The node returned no result."}
	}
	one := res.Results[0]
	if !res.Applied {
		field := ""
		if one.Status == quoratev1.OpStatus_OP_STATUS_ERR_OVERFLOW || one.Status == quoratev1.OpStatus_OP_STATUS_ERR_UNDERFLOW {
			field = "delta"
		}
		return nil, &Problem{Status: http.StatusConflict, Title: "Not applied", Detail: enumText(one.Status.String(), "OP_STATUS_ERR_") + ": " + one.StatusMsg, Field: field}
	}
	out := &Result{Title: "Applied", Lines: []string{fmt.Sprintf("The balance was %s and is %s.", num(one.PreviousBalance), num(one.NewBalance))}}
	if one.AccountStatus == quoratev1.AccountStatus_ACCOUNT_STATUS_CREATED {
		out.Lines = []string{fmt.Sprintf("This created the account. Its balance is %s.", num(one.NewBalance))}
	}
	if res.Repeated {
		out.Title = "Already applied"
		out.Lines = append(out.Lines, "This request id was applied at "+res.OriginallySet.AsTime().UTC().Format("2006-01-02 15:04:05")+" UTC; it was not applied again.")
	}
	return out, nil
}

// policyList is the data of the page of policies.
type policyList struct {
	App, Realm string
	Asked      bool
	All        *realmList // without an application and a realm
	Configs    []*quoratev1.PolicySummary
	Next       string
	Problem    *Problem
	One        *quoratev1.GetPoliciesResponse
	Shown      []policyRow
	More       int
}

type policyRow struct{ Name, Namespace, Type, Text string }

const policiesShown = 500

func loadPolicies(r *Request) (any, error) {
	l := &policyList{App: r.Query("app"), Realm: r.Query("realm")}
	if l.App == "" || l.Realm == "" {
		var err error
		l.All, err = loadRealms(r, "policies")
		return l, err
	}
	l.Asked = true
	if v := r.Query("version"); v != "" {
		err := l.one(r, v)
		return l, err
	}
	res, err := r.Accounts.ListPolicies(r.Context(), &quoratev1.ListPoliciesRequest{AppId: l.App, Realm: l.Realm, PageSize: accountsOnPage, PageToken: r.Query("after")})
	if err != nil {
		l.Problem = problemOf(err)
		return l, nil
	}
	l.Configs = res.Policies
	if res.NextPageToken != "" {
		l.Next, err = link("policies", "app", l.App, "realm", l.Realm, "after", res.NextPageToken)
	}
	return l, err
}

func (l *policyList) one(r *Request, version string) error {
	res, err := r.Accounts.GetPolicies(r.Context(), &quoratev1.GetPoliciesRequest{Id: &quoratev1.PolicyConfigID{AppId: l.App, Realm: l.Realm, Version: version}})
	if err != nil {
		return err
	}
	l.One = res
	for i, e := range res.GetConfig().GetPolicies() {
		if i == policiesShown {
			l.More = len(res.Config.Policies) - i
			break
		}
		l.Shown = append(l.Shown, policyRow{e.GetKey().GetName(), e.GetKey().GetNamespace(), e.GetKey().GetResourceType(), policyText(e.Policy)})
	}
	return nil
}
