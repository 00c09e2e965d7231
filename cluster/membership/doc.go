// Package membership is who is in a cluster: the part of the meta group's state
// that holds members, what is wanted of each group, join tokens, the authority
// that signs certificates, and the feature level.
//
// It is pure. A [Table] is never changed: [Table.Apply] returns another one.
// Every change says from which revision it was made, and is refused if that is
// not the newest: whoever decided on what has changed meanwhile decides anew.
// This is what makes the executor of placements resumable, and a join token
// usable exactly as often as it says.
//
// # Bounds
//
// [MaxMembers] members, [MaxTokens] join tokens, placements of the meta group and
// of shard.MaxRanges ranges, texts of at most quota.MaxNameLen bytes (addresses:
// [MaxAddress]; ids of joins: [MaxJoinID]; makers of tokens:
// [MaxIdentity]), [MaxTrusts] authorities of a member.
package membership
