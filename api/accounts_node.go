package api

import (
	"context"
	"time"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// Accounts keeps durable balances. All methods are safe for concurrent use. Without a leader they
// return an error for which [IsNoLeader] is true. They return such an error for an unknown outcome
// too, unless the error has a method MayBeDone() bool that returns false, which means that nothing
// was done. An error whose TooBusy() bool is true means that too many calls wait; an error whose
// Aborted() bool is true means that other calls held the accounts for too long.
type Accounts interface {
	// ApplyOps applies all operations or none; see quorate.v1.AccountService. It looks up the rules
	// of policies itself: ops does not set them. The outcome is Done,
	// Repeated, Failed, Mismatched, Held (other calls held the accounts for too long) or Full.
	ApplyOps(ctx context.Context, by account.Caller, requestID string, ttl time.Duration, ops []account.Op) (account.Outcome, error)
	// GetAccounts returns accounts in the order of ids, all as of one moment.
	GetAccounts(ctx context.Context, ids []account.ID, stale bool) (states []account.State, at quota.Time, err error)
	// ListAccounts returns up to limit accounts after the id after, of all ranges, sorted by id.
	ListAccounts(ctx context.Context, f account.Filter, after account.ID, limit int) ([]account.State, error)
	// ListRealms returns up to limit realms after the given one that have accounts or policy configs,
	// sorted.
	ListRealms(ctx context.Context, after account.Realm, limit int) ([]account.Realm, error)
	// AccountHistory returns an account with its last changes.
	AccountHistory(ctx context.Context, id account.ID) (account.State, error)
}

// PolicyStore keeps policy configs.
type PolicyStore interface {
	// LoadPolicies stores a config unless its id exists. An empty version becomes
	// account.HashPolicies of the policies. The caller has validated the policies.
	LoadPolicies(ctx context.Context, by string, id account.ConfigID, policies map[account.PolicyKey]account.Policy) (stored account.ConfigID, created bool, err error)
	// Policies returns a config, or nil if it does not exist.
	Policies(ctx context.Context, id account.ConfigID) (*account.Config, error)
	// ListPolicies returns up to limit configs of a realm, without their policies, sorted by
	// version, starting after the version after.
	ListPolicies(ctx context.Context, app, realm, after string, limit int) ([]account.Config, error)
	// PurgePolicies deletes a config, and reports whether it existed.
	PurgePolicies(ctx context.Context, id account.ConfigID) (bool, error)
}
