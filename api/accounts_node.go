package api

import (
	"context"
	"time"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// Accounts keeps durable balances. All methods are called concurrently. Without a
// leader they return an error for which [IsNoLeader] is true; so they do when the
// outcome is not known, unless it has a method MayBeDone() bool that says that
// nothing was done. TooBusy() bool of an error says that too many calls wait, and
// Aborted() bool that others held the accounts for too long.
type Accounts interface {
	// ApplyOps applies all operations or none; see quorate.v1.AccountService. Rules
	// of policies are looked up here: those of ops are not set. by is the caller's
	// identity. The outcome is Done, Repeated, Failed, Mismatched, Held (others held
	// the accounts for too long) or Full.
	ApplyOps(ctx context.Context, by, requestID string, ttl time.Duration, ops []account.Op) (account.Outcome, error)
	// GetAccounts returns accounts in the order of ids, as of one moment.
	GetAccounts(ctx context.Context, ids []account.ID, stale bool) (states []account.State, at quota.Time, err error)
	// ListAccounts returns up to limit accounts behind after, of all ranges, in order of
	// their ids.
	ListAccounts(ctx context.Context, f account.Filter, after account.ID, limit int) ([]account.State, error)
	// AccountHistory returns an account with its last changes.
	AccountHistory(ctx context.Context, id account.ID) (account.State, error)
}

// PolicyStore keeps policy configs.
type PolicyStore interface {
	// LoadPolicies stores a config unless its id is there. An empty version is
	// account.HashPolicies of the policies. They are valid.
	LoadPolicies(ctx context.Context, by string, id account.ConfigID, policies map[account.PolicyKey]account.Policy) (stored account.ConfigID, created bool, err error)
	// Policies returns a config, or nil if there is none.
	Policies(ctx context.Context, id account.ConfigID) (*account.Config, error)
	// ListPolicies returns up to limit configs of a realm behind a version, without their
	// policies, sorted by version.
	ListPolicies(ctx context.Context, app, realm, after string, limit int) ([]account.Config, error)
	// PurgePolicies deletes a config, and reports whether it was there.
	PurgePolicies(ctx context.Context, id account.ConfigID) (bool, error)
}
