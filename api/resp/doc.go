// Package resp serves the Redis protocol, so that whatever has a Redis client has a
// client of Quorate. docs/compat/redis.md is for users; this text is the design.
//
//	connection --read.go--> arguments --command.go--> throttle.go, allow.go --> quota.Request --node--> quota.Decision
//	           <--write.go-- RESP2, or RESP3 after HELLO 3
//
// One goroutine serves a connection and answers its commands in their order. It
// sends when it has nothing left to read, or 16 KiB of answers: pipelines cost one
// write, and no memory that grows with them.
//
// # The parser is ours
//
// tidwall/redcon v1.6.2 bounds neither the size of an argument nor that of a
// command, before or after AUTH, and what it reads of both is kept in memory. Ours
// is one function of bytes, without state, that refuses what Redis's own clients
// never send: signs and leading zeros in lengths, quotes in typed commands. A
// command that is typed as a line and is not known ends the connection, so that a
// web page cannot post commands to this port.
//
// # CL.THROTTLE
//
// The command is that of redis-cell. The bucket is the one that the call
// describes, a quota.Inline, in the namespace "redis": every node makes the same
// limit of the same numbers, and counts it as any other limit. So numbers that
// change begin a new bucket, full; there, a key has one bucket whatever the
// numbers are. Limits that change without that are limits of a file, and asked for
// by QUORATE.ALLOW.
//
// What differs from redis-cell:
//
//   - The leader of the key's range decides, exactly: one hop where another node
//     leads it. Nodes would report the first use of a full bucket up to a sync
//     interval late, and who obeys retry_after would come that much too early.
//   - Any rate up to quota.MaxTokens per second is counted exactly. There, more
//     than about a thousand per second is an error, or is never limited.
//   - A quantity below 0 is an error. max_burst is at most quota.MaxTokens-1,
//     period at most 366 days.
//   - A key is UTF-8 and at most 1024 bytes, because the leaders are told of it.
//   - Under two different numbers a key has two buckets, as said above.
//   - While the leader does not answer, nodes decide alone: see docs/accuracy.md.
//   - There is no key to expire or to delete; an unused bucket is full, and
//     forgotten.
//
// # Transactions
//
// MULTI queues the commands up to EXEC, in the form that the parser reads, and EXEC
// runs them as if they had arrived then. Nothing is locked: each command is decided by
// itself, and commands of other connections may run between, as on other nodes anyway.
// WATCH has no effect, as there are no values.
//
// # Who calls
//
// Where authentication is on, AUTH or HELLO takes a bearer token of the cluster or a
// JWT, whatever the user's name is; a client certificate does as well. A command
// that decides needs the permission check in its namespace. A caller is looked up
// again every 10 s, so that a connection does not outlive its token; bindings count
// at once. Commands that decide nothing need nothing: they tell what every server
// of this software tells.
//
// # Bounds
//
// Bytes: read.go, and multi.go for queued commands. Time: server.go. Connections: the listener. Wrong tokens:
// three per connection.
package resp
