package words

import "strings"

// calls describes each call for people. It says what was to be done, because denied and failed
// calls are in the audit log too. TestCalls compares it with api/auth.
var calls = map[string]string{
	"QuotaService/Allow":       "Check a limit",
	"QuotaService/AllowBatch":  "Check limits, many at once",
	"QuotaService/AllowStream": "Check limits in a stream",
	"QuotaService/AllowAll":    "Check limits, all or none",
	"QuotaService/Acquire":     "Acquire a place in flight",
	"QuotaService/Release":     "Release a place in flight",
	"QuotaService/Reserve":     "Reserve tokens",
	"QuotaService/Settle":      "Settle a reservation",
	"QuotaService/Renew":       "Renew a reservation",
	"QuotaService/Refund":      "Return tokens",
	"QuotaService/Report":      "Report use",
	"MemberService/Attach":     "Attach a client process",

	"LimitService/GetLimits":      "Read limits",
	"LimitService/ValidateLimits": "Validate limits",
	"LimitService/DiffLimits":     "Compare limits",
	"LimitService/ListVersions":   "List changes of limits",
	"LimitService/ApplyLimits":    "Change limits",
	"LimitService/RollbackLimits": "Roll limits back",
	"LimitService/DeleteLimits":   "Delete limits",

	"OverrideService/SetOverrides":    "Set overrides of keys",
	"OverrideService/DeleteOverrides": "Clear overrides of keys",
	"OverrideService/ListOverrides":   "List overrides of keys",
	"OverrideService/GetOverride":     "Read an override of a key",

	"KeyService/GetKey":         "Look at a key",
	"KeyService/ResetKey":       "Reset a key",
	"RateService/TopRates":      "Read the keys with the highest demand",
	"RateService/WatchRates":    "Watch the keys with the highest demand",
	"RateService/History":       "Read the history of a limit",
	"RateService/HistoryKeys":   "Read the history of a limit's keys",
	"RateService/HistoryLimits": "List limits with a history",
	"RateService/Headroom":      "Read the headroom of limits",
	"RateService/WhatIf":        "Try another limit on the history",
	"RateService/Suggest":       "Suggest a limit",
	"RateService/Forecast":      "Forecast demand",
	"RateService/Noisy":         "Find noisy keys",
	"RateService/Report":        "Read the report of limits",
	"EventService/Watch":        "Watch decisions",
	"BackupService/Backup":      "Create a backup",

	"AccountService/ApplyOps":     "Use accounts",
	"AccountService/GetAccounts":  "Look at accounts",
	"AccountService/LoadPolicies": "Load policies of accounts",

	"AccountAdminService/ListRealms":        "List realms of accounts",
	"AccountAdminService/GetAccounts":       "Look at accounts, as an administrator",
	"AccountAdminService/ListAccounts":      "List accounts",
	"AccountAdminService/GetAccountHistory": "Read the history of an account",
	"AccountAdminService/ApplyOps":          "Change accounts by hand",
	"AccountAdminService/WritePolicies":     "Change policies of accounts",
	"AccountAdminService/GetPolicies":       "Read policies of accounts",
	"AccountAdminService/ListPolicies":      "List policies of accounts",
	"AccountAdminService/PurgePolicies":     "Remove old policies of accounts",

	"ClusterService/GetStatus":          "Read the status of the cluster",
	"ClusterService/GetPlan":            "Read the plan of moves",
	"ClusterService/Join":               "Let a node join",
	"ClusterService/CreateJoinToken":    "Create a join token",
	"ClusterService/ListJoinTokens":     "List join tokens",
	"ClusterService/RevokeJoinToken":    "Revoke a join token",
	"ClusterService/ChangeNode":         "Drain, activate or remove a node",
	"ClusterService/TransferLeadership": "Transfer leadership",
	"ClusterService/IssueCertificate":   "Issue a certificate",
	"ClusterService/RotateAuthority":    "Rotate the certificate authority",

	"SecurityService/WhoAmI":        "Show one's own identity",
	"SecurityService/ListRoles":     "List roles",
	"SecurityService/SetBinding":    "Grant a role",
	"SecurityService/DeleteBinding": "Revoke a role",
	"SecurityService/ListBindings":  "List roles of callers",
	"SecurityService/CreateToken":   "Create a token",
	"SecurityService/ListTokens":    "List tokens",
	"SecurityService/RevokeToken":   "Revoke a token",

	"SecurityService/ListAuditEntries": "Read the audit log",

	"/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas": "Serve Envoy with quotas",
	"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit":                   "Check limits for Envoy",
	"/quotaservice.QuotaService/Allow":                                               "Check a limit, by the API of quotaservice",
	"/pb.gubernator.V1/GetRateLimits":                                                "Check limits, by the API of Gubernator",
	"/pb.gubernator.V1/HealthCheck":                                                  "Check health, by the API of Gubernator",
	"/pb.gubernator.V1/LiveCheck":                                                    "Check liveness, by the API of Gubernator",
	"/v1/GetRateLimits":                                                              "Check limits, by the HTTP API of Gubernator",
	"/v1/HealthCheck":                                                                "Check health, by the HTTP API of Gubernator",
	"/v1/LiveCheck":                                                                  "Check liveness, by the HTTP API of Gubernator",
	"/json":                                                                          "Check limits for Envoy, by HTTP",
	"/grpc.health.v1.Health/Check":                                                   "Check health",
	"/grpc.health.v1.Health/List":                                                    "List health statuses",
	"/grpc.health.v1.Health/Watch":                                                   "Watch health",
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":                      "List the calls of the API",
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo":                 "List the calls of the API, by the older reflection API",

	"GET /v1/forward-auth":         "Check a limit for a proxy",
	"GET /healthz":                 "Check that the node is alive",
	"GET /readyz":                  "Check that the node is ready",
	"GET /readyz/cluster":          "Check that the cluster is ready",
	"GET /healthcheck":             "Check that the node is ready, as probes of envoyproxy/ratelimit do",
	"GET /v1/openapi.json":         "Read the description of the HTTP API",
	"GET /v1/schema/limits.json":   "Read the schema of limit files",
	"GET /v1/schema/node.json":     "Read the schema of settings",
	"GET /v1/schema/scenario.json": "Read the schema of scenarios",
	"GET /metrics":                 "Read metrics",
	"/api":                         "Read limits, by the API of quotaservice",
	"/api/stats":                   "Read counts, by the API of quotaservice",
	"/console":                     "Open the console",
	"/debug":                       "Take a profile of the node",

	"console/sign-in": "Sign in to the console",
}

// Name returns a method without the common prefix.
func Name(method string) string { return strings.TrimPrefix(method, "/quorate.v1.") }

// Call describes a call. For an unknown one, such as one of another version, it returns the
// name.
func Call(method string) string {
	if words, ok := calls[Name(method)]; ok {
		return words
	}
	if command, ok := strings.CutPrefix(method, "redis "); ok {
		return "Redis command " + command
	}
	return Name(method)
}
