// Package resp serves the Redis protocol, so that every Redis client is a client of Quorate.
// docs/reference/compat/redis.md is for users; this text describes the design.
//
//	connection --read.go--> arguments --command.go--> throttle.go, allow.go --> quota.Request --node--> quota.Decision
//	           <--write.go-- RESP2, or RESP3 after HELLO 3
//
// One goroutine serves a connection and answers its commands in order. It sends when it has nothing
// left to read, or when 16 KiB of answers are buffered: a pipeline costs one write, and the memory
// does not grow with its length.
//
// # Why the parser is our own
//
// tidwall/redcon v1.6.2 bounds neither the size of an argument nor the size of a command, before or
// after AUTH, and buffers both in memory. Our parser is one stateless function of bytes. It refuses
// what Redis clients never send: signs and leading zeros in lengths, quotes in typed commands. An
// unknown command that is typed as a line ends the connection, so that a web page cannot post
// commands to this port.
//
// # CL.THROTTLE
//
// The command is redis-cell's. The bucket is the one that the call describes, a quota.Inline, in
// the namespace "redis": every node derives the same limit from the same numbers, and counts it
// like any other limit. So changed numbers begin a new, full bucket; in redis-cell, a key has one
// bucket whatever the numbers are. Limits that must keep their counts when they change belong in a
// limit file, and QUORATE.ALLOW asks for them.
//
// Differences from redis-cell:
//
//   - The leader of the key's range decides, exactly: one hop if another node leads it. Nodes would
//     report the first use of a full bucket up to a sync interval late, and a caller that obeys
//     retry_after would come that much too early.
//   - Any rate up to quota.MaxTokens per second is counted exactly. In redis-cell, more than about a
//     thousand per second is an error, or is never limited.
//   - A quantity below 0 is an error. max_burst is at most quota.MaxTokens-1, and period at most
//     366 days.
//   - A key is UTF-8 and at most 1024 bytes, because it is sent to the leaders.
//   - Under two different sets of numbers a key has two buckets, as described above.
//   - While the leader does not answer, nodes decide alone: see docs/explanation/accuracy.md.
//   - There is no key to expire or delete; an unused bucket is full, and forgotten.
//
// # Transactions
//
// MULTI queues the commands up to EXEC, in their wire form, and EXEC runs them as if they had
// arrived then. Nothing is locked: each command is decided on its own, and commands of other
// connections may run in between, as commands on other nodes can anyway. WATCH has no effect,
// because there are no values.
//
// # Authentication
//
// With authentication on, AUTH or HELLO takes a bearer token of the cluster or a JWT, and ignores
// the user's name; a client certificate works as well. A command that decides needs the permission
// check in its namespace. The caller is identified again every 10 s, so that a connection does not
// outlive its token; bindings take effect at once. Commands that decide nothing need no permission:
// they return the same information on every server of this software.
//
// # Bounds
//
// read.go bounds the bytes of a connection, and multi.go the queued commands, of which one caller
// has at most a quarter. server.go bounds the time, and the listener the number of connections. A
// connection may send three wrong tokens.
package resp
