package account

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Bounds of what one range holds and one call carries.
const (
	// Most is the greatest amount, and -Most the least: 2^53-1, so that every
	// language's JSON can carry it.
	Most = 1<<53 - 1
	// MostDelta is the greatest delta of one operation, and -MostDelta the least.
	MostDelta = 9007199254740
	// MaxOps bounds the operations of one request.
	MaxOps = 1000
	// MaxAtom bounds each part of an id, in bytes.
	MaxAtom = 256
	// MaxRequestID bounds the id of a request, in bytes.
	MaxRequestID = 256
	// MaxPolicies bounds the policies of one config.
	MaxPolicies = 10_000
	// DefaultTTL is how long a request id is remembered if the caller does not say.
	DefaultTTL = 2 * time.Hour
	// MaxTTL is how long it can be.
	MaxTTL = 31 * 24 * time.Hour
	// MaxHistory is how many changes of an account are kept.
	MaxHistory = 8
)

// ID names an account; see quorate.v1.AccountID for what its parts may be.
type ID struct {
	App, Realm, Identity, Namespace, Name, Resource string
}

// ConfigID names a policy config. Version is "$" and a hash of the content, or "#"
// and a name that the caller has chosen.
type ConfigID struct{ App, Realm, Version string }

// PolicyKey names a policy in its config.
type PolicyKey struct{ Namespace, Name, Resource string }

// PolicyRef names a policy.
type PolicyRef struct {
	Config ConfigID
	Key    PolicyKey
}

// Policy is the rule of accounts.
type Policy struct {
	Default  int64 // of a new account; 0 to Most
	Limit    int64 // 0 to Most
	Refill   Refill
	Options  PolicyOptions
	Lifetime time.Duration // of an account after its last change; 0 is for ever
}

// Refill adds Units at every moment that is Offset seconds and a multiple of
// Interval seconds after midnight UTC. The zero value adds nothing.
type Refill struct {
	Units    int64  // -Most to Most
	Interval uint32 // seconds; divides 86400; 0 is always full, of Units above 0
	Offset   uint32 // seconds; 0 to 86400
}

// PolicyOptions are bits.
type PolicyOptions int32

// AbsoluteResource says that the application alone manages what is counted.
const AbsoluteResource PolicyOptions = 1

// RelativeTo is what a delta is added to; as in quorate.v1.RelativeTo.
type RelativeTo uint8

// What a delta may be added to.
const (
	Balance RelativeTo = iota
	Zero
	Default
	Limit
)

// OpOptions are bits; as in quorate.v1.OpOption.
type OpOptions uint32

// The options of an operation.
const (
	IgnorePolicyBounds   OpOptions = 1
	DoNotCapProposed     OpOptions = 2
	WithPolicyLimitDelta OpOptions = 4
)

// Op is one change of one account.
type Op struct {
	Account ID
	// Policy is the one to set; nil keeps the account's. Rule is its content, which
	// whoever proposes the operation has looked up: nil if it is not loaded.
	Policy     *PolicyRef
	Rule       *Policy
	RelativeTo RelativeTo
	Delta      int64
	Options    OpOptions
}

// Status is what became of an operation; as in quorate.v1.OpStatus.
type Status uint8

// What can become of an operation.
const (
	Success Status = iota
	Unknown
	Overflow
	Underflow
	UnknownPolicy
	MissingAccount
	PolicyRequired
)

// Result is what became of an operation; see quorate.v1.OpResult.
type Result struct {
	New, Previous, Adjusted int64
	Created                 bool
	Status                  Status
	Message                 string // for people; empty on success
}

// Hash identifies the operations of a request: SHA-256 of their canonical
// encoding, without the content of policies and without the TTL.
type Hash [32]byte

// Request is the operations of one call that are for one range.
type Request struct {
	By   string        // the caller's identity
	ID   string        // per caller; empty is not remembered
	Hash Hash          // of all operations of the call, in whatever range
	TTL  time.Duration // how long ID is remembered once it was applied
	Ops  []Op
	// Indexes are the operations' places in the call; nil is 0, 1, 2 and so on.
	Indexes []int32
}

// TxID names one attempt of a request on several ranges; random, never used again.
type TxID [16]byte

// Tx is a transaction on several ranges. The record in Home's log decides what
// becomes of it; the others hold what they have prepared until they are told.
type Tx struct {
	ID   TxID
	Home quota.RangeID
}

// Config is an immutable group of policies.
type Config struct {
	ID       ConfigID
	Policies map[PolicyKey]Policy
	Count    int // of Policies, also where these are left out
	At       quota.Time
	By       string
}
