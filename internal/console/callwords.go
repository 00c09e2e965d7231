package console

import "strings"

// callWords says what each call does, for people. As what was denied or has failed stands
// in the audit log too, it is what was to be done. TestCallWords holds it to api/auth.
var callWords = map[string]string{
	"QuotaService/Allow":       "Check a limit",
	"QuotaService/AllowBatch":  "Check limits, many at once",
	"QuotaService/AllowStream": "Check limits in a stream",
	"QuotaService/AllowAll":    "Check limits, all or none",
	"QuotaService/Acquire":     "Take a place in flight",
	"QuotaService/Release":     "Give a place in flight back",
	"QuotaService/Reserve":     "Reserve tokens",
	"QuotaService/Settle":      "Settle a reservation",
	"QuotaService/Renew":       "Renew a reservation",
	"QuotaService/Refund":      "Give tokens back",
	"QuotaService/Report":      "Report what was used",
	"MemberService/Attach":     "Decide in a client of its own",

	"LimitService/GetLimits":      "Read limits",
	"LimitService/ValidateLimits": "Look for mistakes in limits",
	"LimitService/DiffLimits":     "Compare limits",
	"LimitService/ListVersions":   "List changes of limits",
	"LimitService/ApplyLimits":    "Change limits",
	"LimitService/RollbackLimits": "Take limits back to an older version",
	"LimitService/DeleteLimits":   "Delete limits",

	"OverrideService/SetOverrides":    "Set overrides of keys",
	"OverrideService/DeleteOverrides": "Clear overrides of keys",
	"OverrideService/ListOverrides":   "List overrides of keys",
	"OverrideService/GetOverride":     "Read an override of a key",

	"KeyService/GetKey":         "Look at a key",
	"KeyService/ResetKey":       "Reset a key",
	"RateService/TopRates":      "Read the keys with the highest demand",
	"RateService/WatchRates":    "Watch the keys with the highest demand",
	"RateService/History":       "Read the past of a limit",
	"RateService/HistoryKeys":   "Read the past of a limit's keys",
	"RateService/HistoryLimits": "List limits that have a past",
	"RateService/Headroom":      "Read how full limits are",
	"RateService/WhatIf":        "Try another limit on the past",
	"RateService/Suggest":       "Ask for a limit that would fit",
	"RateService/Forecast":      "Ask for a forecast",
	"RateService/Noisy":         "Look for noisy keys",
	"RateService/Report":        "Read the report of limits",
	"EventService/Watch":        "Watch decisions",
	"BackupService/Backup":      "Make a backup",

	"AccountService/ApplyOps":     "Use accounts",
	"AccountService/GetAccounts":  "Look at accounts",
	"AccountService/LoadPolicies": "Load policies of accounts",

	"AccountAdminService/GetAccounts":       "Look at accounts, as an administrator",
	"AccountAdminService/ListAccounts":      "List accounts",
	"AccountAdminService/GetAccountHistory": "Read the past of an account",
	"AccountAdminService/ApplyOps":          "Change accounts by hand",
	"AccountAdminService/WritePolicies":     "Change policies of accounts",
	"AccountAdminService/GetPolicies":       "Read policies of accounts",
	"AccountAdminService/ListPolicies":      "List policies of accounts",
	"AccountAdminService/PurgePolicies":     "Remove old policies of accounts",

	"ClusterService/GetStatus":          "Read how the cluster is",
	"ClusterService/GetPlan":            "Read the plan of moves",
	"ClusterService/Join":               "Let a node join",
	"ClusterService/CreateJoinToken":    "Make a join token",
	"ClusterService/ListJoinTokens":     "List join tokens",
	"ClusterService/RevokeJoinToken":    "Revoke a join token",
	"ClusterService/ChangeNode":         "Drain, activate or remove a node",
	"ClusterService/TransferLeadership": "Hand leadership over",
	"ClusterService/IssueCertificate":   "Issue a certificate",
	"ClusterService/RotateAuthority":    "Rotate the certificate authority",

	"SecurityService/WhoAmI":        "Ask who one is",
	"SecurityService/ListRoles":     "List roles",
	"SecurityService/SetBinding":    "Give a role",
	"SecurityService/DeleteBinding": "Take a role away",
	"SecurityService/ListBindings":  "List who has which role",
	"SecurityService/CreateToken":   "Make a token",
	"SecurityService/ListTokens":    "List tokens",
	"SecurityService/RevokeToken":   "Revoke a token",

	"/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas": "Serve Envoy with quotas",
	"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit":                   "Check limits for Envoy",
	"/quotaservice.QuotaService/Allow":                                               "Check a limit, by the API of quotaservice",
	"/pb.gubernator.V1/GetRateLimits":                                                "Check limits, by the API of Gubernator",
	"/pb.gubernator.V1/HealthCheck":                                                  "Ask for health, by the API of Gubernator",
	"/pb.gubernator.V1/LiveCheck":                                                    "Ask for life, by the API of Gubernator",
	"/v1/GetRateLimits":                                                              "Check limits, by the HTTP API of Gubernator",
	"/v1/HealthCheck":                                                                "Ask for health, by the HTTP API of Gubernator",
	"/v1/LiveCheck":                                                                  "Ask for life, by the HTTP API of Gubernator",
	"/json":                                                                          "Check limits for Envoy, by HTTP",
	"/grpc.health.v1.Health/Check":                                                   "Ask for health",
	"/grpc.health.v1.Health/List":                                                    "List what has a health",
	"/grpc.health.v1.Health/Watch":                                                   "Watch health",
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":                      "Ask which calls there are",
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo":                 "Ask which calls there are, by an older API",

	"GET /v1/forward-auth":         "Check a limit for a proxy",
	"GET /healthz":                 "Ask whether the node lives",
	"GET /readyz":                  "Ask whether the node is ready",
	"GET /readyz/cluster":          "Ask whether the cluster is ready",
	"GET /healthcheck":             "Ask whether the node is ready, as probes of envoyproxy/ratelimit do",
	"GET /v1/openapi.json":         "Read the description of the HTTP API",
	"GET /v1/schema/limits.json":   "Read the schema of limit files",
	"GET /v1/schema/node.json":     "Read the schema of settings",
	"GET /v1/schema/scenario.json": "Read the schema of scenarios",
	"GET /metrics":                 "Read metrics",
	"/api":                         "Read limits, by the API of quotaservice",
	"/api/stats":                   "Read what was counted, by the API of quotaservice",
	"/console":                     "Open the console",
	"/debug":                       "Take a profile of the node",

	"console/sign-in": "Sign in to the console",
}

// callName is a method without what all have in common.
func callName(method string) string { return strings.TrimPrefix(method, "/quorate.v1.") }

// callText says in words what a call does; of one that it does not know, such as of
// another version, its name.
func callText(method string) string {
	if words, ok := callWords[callName(method)]; ok {
		return words
	}
	if command, ok := strings.CutPrefix(method, "redis "); ok {
		return "Redis command " + command
	}
	return callName(method)
}
