package auth

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/internal/rbac"
)

// Need is the requirement of a call on its caller.
type Need uint8

// Kinds of needs.
const (
	Open   Need = iota + 1 // nothing
	Known                  // any valid credential
	Permit                 // a permission in the scopes of the call
	Inside                 // a permission that the call checks itself, because it depends on the call's subject
)

// Rule states what a caller needs to make a call.
type Rule struct {
	Need       Need
	Permission rbac.Permission // for Permit; for Inside, the one that is checked most often
	// Scopes returns the scopes in which a request needs the permission; nil means everywhere.
	Scopes func(proto.Message) []rbac.Scope
	// AnyScope says that the permission in any scope lets a call in. The call then checks again, or
	// shows only what the caller may see.
	AnyScope bool
	Audited  bool // it changes something that lasts
	Control  bool // it counts against quorate/api, if that limit exists
	// Always exempts a control call from quorate/api, so that it can repair a bad limit.
	Always bool
	// Proxied marks a check that proxies send with the headers of their clients, so that it seems
	// to come from a page of another site.
	Proxied bool
	// AnyHost marks a call over HTTP that may name any host: a probe, or a Proxied check.
	AnyHost bool
	About   string // where the permission is needed, in words, for the documented table
}

// RuleOf returns the rule of a method ("/quorate.v1.QuotaService/Allow"), or of a route that is not
// a method ("GET /metrics").
func RuleOf(method string) (Rule, bool) {
	r, ok := rules[method]
	return r, ok
}

// Methods returns all methods and routes in the table, sorted.
func Methods() []string { return slices.Sorted(maps.Keys(rules)) }

const (
	pkg       = "/quorate.v1."
	namespace = "in its namespace"
	eachOf    = "in the namespace of each"
	oneOrAll  = "in the namespace asked for; everywhere for all"
	anywhere  = "in some namespace"
	domain    = "in the namespace that is its domain"
	handle    = "in each namespace of the reservation"
	changed   = "in each namespace that changes"
	shown     = "in any namespace; the answer has only those"
	realm     = "in the realm of each"
	givesBack = "in namespace gubernator; there `report` to give back, `keys.reset` to reset"
	inDomain  = "in the domain's namespace; there `report` to give back, and to book hits that do not fit"
	adminOf   = "in the realm, or in @internal:APP"
)

var rules = map[string]Rule{
	pkg + "QuotaService/Allow":       proxied(hot(rbac.Check, byCheck, namespace)),
	pkg + "QuotaService/AllowBatch":  proxied(hot(rbac.Check, byChecks, eachOf)),
	pkg + "QuotaService/AllowStream": hot(rbac.Check, byCheck, namespace),
	pkg + "QuotaService/AllowAll":    proxied(hot(rbac.Check, byChecks, eachOf)),
	pkg + "QuotaService/Acquire":     hot(rbac.Check, byNamespace, namespace),
	pkg + "QuotaService/Release":     hot(rbac.Check, nil, handle),
	pkg + "QuotaService/Reserve":     hot(rbac.Report, byChecks, eachOf),
	pkg + "QuotaService/Settle":      hot(rbac.Report, nil, handle),
	pkg + "QuotaService/Renew":       hot(rbac.Check, nil, handle),
	pkg + "QuotaService/Refund":      hot(rbac.Report, byNamespace, namespace),
	pkg + "QuotaService/Report":      hot(rbac.Report, byNamespace, namespace),

	pkg + "MemberService/Attach": hot(rbac.Check, nil, anywhere),

	// The first report of the stream names the namespace; package rlqs checks the permission then.
	"/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas": hot(rbac.Check, nil, domain),

	pkg + "LimitService/GetLimits":      some(rbac.LimitsRead, shown),
	pkg + "LimitService/ValidateLimits": some(rbac.LimitsRead, anywhere),
	pkg + "LimitService/DiffLimits":     some(rbac.LimitsRead, shown),
	pkg + "LimitService/ListVersions":   some(rbac.LimitsRead, shown),
	pkg + "LimitService/ApplyLimits":    undo(some(rbac.LimitsWrite, changed)),
	pkg + "LimitService/RollbackLimits": undo(some(rbac.LimitsWrite, changed)),
	pkg + "LimitService/DeleteLimits":   undo(some(rbac.LimitsWrite, changed)),

	pkg + "OverrideService/SetOverrides":    write(by(rbac.LimitsWrite, byOverrides, eachOf)),
	pkg + "OverrideService/DeleteOverrides": write(by(rbac.LimitsWrite, byKeys, eachOf)),
	pkg + "OverrideService/ListOverrides":   by(rbac.LimitsRead, byNamespaceOrAll, oneOrAll),
	pkg + "OverrideService/GetOverride":     by(rbac.LimitsRead, byNamespace, namespace),

	pkg + "KeyService/GetKey":         by(rbac.KeysRead, byNamespace, namespace),
	pkg + "KeyService/ResetKey":       write(by(rbac.KeysReset, byNamespace, namespace)),
	pkg + "RateService/TopRates":      by(rbac.RatesRead, byNamespaceOrAll, oneOrAll),
	pkg + "RateService/WatchRates":    by(rbac.RatesRead, byNamespaceOrAll, oneOrAll),
	pkg + "RateService/History":       by(rbac.RatesRead, byNamespace, namespace),
	pkg + "RateService/HistoryKeys":   by(rbac.RatesRead, byNamespace, namespace),
	pkg + "RateService/HistoryLimits": by(rbac.RatesRead, byNamespaceOrAll, oneOrAll),
	pkg + "RateService/Headroom":      by(rbac.RatesRead, byNamespaceOrAll, oneOrAll),
	pkg + "RateService/WhatIf":        by(rbac.RatesRead, byNamespace, namespace),
	pkg + "RateService/Suggest":       by(rbac.RatesRead, byNamespace, namespace),
	pkg + "RateService/Forecast":      by(rbac.RatesRead, byNamespace, namespace),
	pkg + "RateService/Noisy":         by(rbac.RatesRead, byNamespace, namespace),
	pkg + "RateService/Report":        by(rbac.RatesRead, byNamespaceOrAll, oneOrAll),
	pkg + "EventService/Watch":        by(rbac.EventsRead, byNamespaceOrAll, oneOrAll),
	pkg + "BackupService/Backup":      write(everywhere(rbac.ClusterBackup)),

	pkg + "AccountService/ApplyOps":     by(rbac.AccountsUse, byOps, realm),
	pkg + "AccountService/GetAccounts":  by(rbac.AccountsUse, byAccounts, realm),
	pkg + "AccountService/LoadPolicies": write(by(rbac.AccountsUse, byRealm, realm)),

	pkg + "AccountAdminService/ListRealms":        {Need: Inside, Permission: rbac.AccountsList, Control: true, About: "in some realm; shows those realms"},
	pkg + "AccountAdminService/GetAccounts":       inside(rbac.AccountsRead),
	pkg + "AccountAdminService/ListAccounts":      inside(rbac.AccountsList),
	pkg + "AccountAdminService/GetAccountHistory": inside(rbac.AccountsRead),
	pkg + "AccountAdminService/ApplyOps":          write(inside(rbac.AccountsWrite)),
	pkg + "AccountAdminService/WritePolicies":     write(inside(rbac.PoliciesWrite)),
	pkg + "AccountAdminService/GetPolicies":       inside(rbac.PoliciesRead),
	pkg + "AccountAdminService/ListPolicies":      inside(rbac.PoliciesRead),
	pkg + "AccountAdminService/PurgePolicies":     write(inside(rbac.PoliciesPurge)),

	pkg + "ClusterService/GetStatus":          everywhere(rbac.ClusterRead),
	pkg + "ClusterService/GetPlan":            everywhere(rbac.ClusterRead),
	pkg + "ClusterService/Join":               write(Rule{Need: Open, Control: true, About: "a join token or a node's certificate is in the call"}),
	pkg + "ClusterService/CreateJoinToken":    write(everywhere(rbac.ClusterAdmin)),
	pkg + "ClusterService/ListJoinTokens":     everywhere(rbac.ClusterAdmin),
	pkg + "ClusterService/RevokeJoinToken":    write(everywhere(rbac.ClusterAdmin)),
	pkg + "ClusterService/ChangeNode":         write(everywhere(rbac.ClusterAdmin)),
	pkg + "ClusterService/TransferLeadership": write(everywhere(rbac.ClusterAdmin)),
	pkg + "ClusterService/IssueCertificate":   write(everywhere(rbac.AccessAdmin)),
	pkg + "ClusterService/RotateAuthority":    write(everywhere(rbac.ClusterAdmin)),

	pkg + "SecurityService/WhoAmI":        {Need: Open, Control: true},
	pkg + "SecurityService/ListRoles":     {Need: Known, Control: true},
	pkg + "SecurityService/SetBinding":    write(everywhere(rbac.AccessAdmin)),
	pkg + "SecurityService/DeleteBinding": write(everywhere(rbac.AccessAdmin)),
	pkg + "SecurityService/ListBindings":  everywhere(rbac.AccessRead),
	pkg + "SecurityService/CreateToken":   write(everywhere(rbac.AccessAdmin)),
	pkg + "SecurityService/ListTokens":    everywhere(rbac.AccessRead),
	pkg + "SecurityService/RevokeToken":   write(everywhere(rbac.AccessAdmin)),

	pkg + "SecurityService/ListAuditEntries": everywhere(rbac.AccessRead),

	"/quotaservice.QuotaService/Allow": hot(rbac.Check, byNamespace, namespace),

	"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit": hot(rbac.Check, byDomain, inDomain),
	"/pb.gubernator.V1/GetRateLimits":                              hot(rbac.Check, inGubernator, givesBack),
	"/pb.gubernator.V1/HealthCheck":                                {Need: Open},
	"/pb.gubernator.V1/LiveCheck":                                  {Need: Open},
	"/v1/GetRateLimits":                                            hot(rbac.Check, nil, givesBack),
	"/v1/HealthCheck":                                              {Need: Open},
	"/v1/LiveCheck":                                                {Need: Open},
	"/json":                                                        proxied(hot(rbac.Check, nil, inDomain)),

	"/grpc.health.v1.Health/Check":                                   {Need: Open},
	"/grpc.health.v1.Health/List":                                    {Need: Open},
	"/grpc.health.v1.Health/Watch":                                   {Need: Open},
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      {Need: Known, Control: true},
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": {Need: Known, Control: true},

	"GET /v1/forward-auth":         anyHost(hot(rbac.Check, nil, namespace)),
	"GET /healthz":                 anyHost(Rule{Need: Open}),
	"GET /readyz":                  anyHost(Rule{Need: Open}),
	"GET /readyz/cluster":          anyHost(Rule{Need: Open}),
	"GET /healthcheck":             anyHost(Rule{Need: Open}),
	"GET /v1/openapi.json":         {Need: Open},
	"GET /v1/schema/limits.json":   {Need: Open},
	"GET /v1/schema/node.json":     {Need: Open},
	"GET /v1/schema/scenario.json": {Need: Open},
	"GET /metrics":                 {Need: Permit, Permission: rbac.MetricsRead},
	"/api":                         everywhere(rbac.LimitsRead),
	"/api/stats":                   everywhere(rbac.RatesRead),
	"/console":                     {Need: Open, About: "pages; their content and changes need the permissions of the calls"},
	"/debug":                       write(everywhere(rbac.DebugRead)),
}

// hot returns the rule of a call that services make all the time.
func hot(p rbac.Permission, scopes func(proto.Message) []rbac.Scope, about string) Rule {
	return Rule{Need: Permit, Permission: p, Scopes: scopes, AnyScope: scopes == nil, About: about}
}

func by(p rbac.Permission, scopes func(proto.Message) []rbac.Scope, about string) Rule {
	return Rule{Need: Permit, Permission: p, Scopes: scopes, Control: true, About: about}
}

func some(p rbac.Permission, about string) Rule {
	return Rule{Need: Permit, Permission: p, AnyScope: true, Control: true, About: about}
}

func everywhere(p rbac.Permission) Rule {
	return Rule{Need: Permit, Permission: p, Control: true}
}

func inside(p rbac.Permission) Rule {
	return Rule{Need: Inside, Permission: p, Control: true, About: adminOf}
}

func write(r Rule) Rule {
	r.Audited = true
	return r
}

func proxied(r Rule) Rule {
	r.Proxied = true
	return r
}

func anyHost(r Rule) Rule {
	r.AnyHost = true
	return r
}

func undo(r Rule) Rule {
	r.Audited, r.Always = true, true
	return r
}
