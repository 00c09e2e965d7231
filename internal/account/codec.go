package account

import "github.com/quorate/quorate/internal/quota"

// EncodeBatch encodes commands as they stand in one entry of a range's log
// (quorate.raftlog.v1.AccountBatch).
func EncodeBatch(at quota.Time, commands []Command) ([]byte, error) { panic("contract") }

// DecodeBatch decodes what EncodeBatch has made, of this version or an earlier
// one. An error says what is wrong; nothing of the batch is to be applied then.
func DecodeBatch(data []byte) (at quota.Time, commands []Command, err error) { panic("contract") }

// Placement is what the range of an account is chosen by: all of its id, or, when
// the first section of its namespace begins with "@", app, realm and that section.
func (id ID) Placement() string { panic("contract") }

// HashOps returns the hash of a call's operations.
func HashOps(ops []Op) Hash { panic("contract") }

// HashPolicies returns the version of a policy config that is named by its
// content: "$" and the hash, whatever the order of the policies.
func HashPolicies(policies map[PolicyKey]Policy) string { panic("contract") }
