package account

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Bounds of one range's contents and of one call.
const (
	// Most is the greatest amount, and -Most the least: 2^53-1, which JSON of every language can
	// carry.
	Most = 1<<53 - 1
	// MostDelta is the greatest delta of one operation, and -MostDelta the least.
	MostDelta = 9007199254740
	// MaxOps bounds the operations of one request.
	MaxOps = 1000
	// MaxPage bounds the accounts, realms or policy configs of one page.
	MaxPage = 1000
	// MaxAtom bounds each part of an id, in bytes.
	MaxAtom = 256
	// MaxRequestID bounds the id of a request, in bytes.
	MaxRequestID = 256
	// MaxPolicies bounds the policies of one config.
	MaxPolicies = 10_000
	// DefaultTTL is how long the store remembers a request id by default.
	DefaultTTL = 2 * time.Hour
	// MaxTTL is the longest time that the store remembers a request id.
	MaxTTL = 31 * 24 * time.Hour
	// MaxHistory is how many changes the store keeps of an account.
	MaxHistory = 8
)

// ID names an account. See quorate.v1.AccountID for the valid parts.
type ID struct {
	App, Realm, Identity, Namespace, Name, Resource string
}

// ConfigID names a policy config. Version is "$" and a hash of the content, or "#" and a name that
// the caller chose.
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
	Lifetime time.Duration // after the account's last change; 0 means permanently
}

// Refill adds Units whenever the seconds since midnight UTC are Offset plus a multiple of Interval.
// The zero value adds nothing.
type Refill struct {
	Units    int64  // -Most to Most
	Interval uint32 // seconds; divides 86400; 0 with Units above 0 keeps accounts full
	Offset   uint32 // seconds; 0 to 86400
}

// PolicyOptions are bits.
type PolicyOptions int32

// AbsoluteResource says that the application alone manages the resource.
const AbsoluteResource PolicyOptions = 1

// RelativeTo says what a delta is added to, as in quorate.v1.RelativeTo.
type RelativeTo uint8

// The values that a delta may be added to.
const (
	Balance RelativeTo = iota
	Zero
	Default
	Limit
)

// OpOptions are bits, as in quorate.v1.OpOption.
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
	// Policy is the policy to set; nil keeps the account's. Rule is its content, looked up by the
	// proposer of the operation: nil if the policy is not loaded.
	Policy     *PolicyRef
	Rule       *Policy
	RelativeTo RelativeTo
	Delta      int64
	Options    OpOptions
}

// Status is the result of an operation, as in quorate.v1.OpStatus.
type Status uint8

// The possible results of an operation.
const (
	Success Status = iota
	Unknown
	Overflow
	Underflow
	UnknownPolicy
	MissingAccount
	PolicyRequired
)

// Result describes the result of an operation; see quorate.v1.OpResult.
type Result struct {
	New, Previous, Adjusted int64
	Created                 bool
	Status                  Status
	Message                 string // for people; empty on success
}

// Hash identifies the operations of a request: SHA-256 of their canonical
// encoding, without the content of policies and without the TTL.
type Hash [32]byte

// Caller identifies the caller of operations.
type Caller struct {
	By    string // its identity
	Owner string // whom the call counts for where callers share a bound; "" if that is not known
}

// Request holds the operations of one call that concern one range.
type Request struct {
	By   string        // the caller's identity
	ID   string        // unique per caller; the store does not remember an empty one
	Hash Hash          // of all operations of the call, on any range
	TTL  time.Duration // how long the store remembers ID after applying it
	Ops  []Op
	// Indexes holds the operations' positions in the call; nil is 0, 1, 2 and so on.
	Indexes []int32
}

// TxID names one attempt of a request on several ranges. It is random and never reused.
type TxID [16]byte

// Tx is a transaction on several ranges. The record in Home's log decides its result; the other
// ranges hold their prepared parts until they learn the decision.
type Tx struct {
	ID   TxID
	Home quota.RangeID
}

// Config is an immutable group of policies.
type Config struct {
	ID       ConfigID
	Policies map[PolicyKey]Policy
	Count    int // of Policies, even where Policies is left out
	At       quota.Time
	By       string
}
