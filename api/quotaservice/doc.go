// Package quotaservice serves the wire protocol of square/quotaservice: its one gRPC call, and the
// read-only paths of its admin API. Its clients in any language only need to change an address to
// use Quorate. docs/reference/compat/quotaservice.md lists the differences for users; this text describes the
// design.
//
//	Allow(namespace, bucket_name) --names.go--> quota.Request --node--> quota.Decision --status.go--> Status
//	GET /api...                   <--bucket.go, config.go-- quota.Limits
//
// # Names
//
// A bucket of quotaservice has no key, so it maps to the key [quota.WholeKey] of the limit of the
// same name. quota.Limits.Resolve finds the limit: the limit itself, the namespace's template, its
// default, or the global default.
//
// quotaservice accepts any non-empty name, and people put addresses and user ids with colons into
// the names of dynamic buckets. No limit of Quorate can have such a name, so it becomes a key of
// the template or the default, and never reaches the node as a name.
//
// # Differences from quotaservice
//
// This package implements the documented protocol, not the accidents of the quotaservice server.
// That server answered OK when it failed; here that is REJECTED_SERVER_ERROR. It reported 0 granted
// tokens when the number was left to it; here it is 1. It rounded waits down; here they are rounded
// up. It counted as misses only buckets that it could not create; here refused tokens count.
//
// # Reading
//
// The JSON has the field names and number forms of the quotaservice server, so its console and its
// command line can show limits. bucket.go rounds what the form cannot express. Changes are refused,
// with the command to use instead: the form expresses less than a limit file, so a change through
// it would lose the rest.
//
// # Out of scope
//
// Out of scope are its web console, its config stores, and its HTTP form of Allow, which was only
// ever an empty stub; Quorate has POST /v1/allow.
package quotaservice
