// Package quotaservice serves the wire protocol of square/quotaservice: its one
// gRPC call, and the paths of its admin API that read. Its clients in any
// language reach Quorate by a change of address. docs/quotaservice.md tells
// users what differs; this text is the design.
//
//	Allow(namespace, bucket_name) --names.go--> quota.Request --node--> quota.Decision --status.go--> Status
//	GET /api...                   <--bucket.go, config.go-- quota.Limits
//
// # Names
//
// A bucket there has no key, so it is the key [quota.WholeKey] of the limit of
// the same name, found by quota.Limits.Resolve: the limit, the namespace's
// template, its default, the global default.
//
// That server takes any name that is not empty, and people put addresses and
// user ids with colons into the names of dynamic buckets. No limit of ours has
// such a name, so it goes straight to the template or default, as a key; it
// never reaches the node as a name.
//
// # What is not theirs
//
// The protocol as it is written counts, not the accidents of its server. It
// answered OK when it failed: here that is REJECTED_SERVER_ERROR. It told that 0
// tokens were granted when the number was left to it: here it is 1. It rounded
// waits down, here they are rounded up. It counted as misses only buckets that
// it could not make: here what was refused counts.
//
// # Reading
//
// The JSON has the field names and number forms of that server, so its console
// and its command line can show limits. What has no words there is rounded as
// bucket.go says. Changes are refused, with the command to use instead: two
// languages for the same limits, one of which loses what the other says, would
// make a change through the smaller one a loss.
//
// # Out of scope
//
// Its web console, its config stores, and its HTTP form of Allow, which was
// never more than an empty stub; POST /v1/allow is ours.
package quotaservice
