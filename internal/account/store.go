package account

import (
	"io"

	"github.com/quorate/quorate/internal/quota"
)

// Bounds bounds a store. The zero value of a field means its default.
type Bounds struct {
	MaxAccounts int // default 4,000,000
	MaxRequests int // request ids remembered, default 2,000,000
	MaxTx       int // transactions under way or not yet forgotten, default 10,000
}

// Store is the accounts of one range: a deterministic state machine. The same
// commands at the same times make the same state on every replica, byte for byte
// in its snapshot. Not safe for concurrent use; a [View] is.
type Store struct{}

// Apply carries out one command. at is the time in the log's entry; one that is
// below an earlier one counts as that.
func (s *Store) Apply(at quota.Time, c *Command) Outcome { panic("contract") }

// View returns the state as it is now, in constant time: it does not change with
// the store.
func (s *Store) View() View { panic("contract") }

// Stats are for metrics and status.
func (s *Store) Stats() Stats { panic("contract") }

// Stats is the size of a store.
type Stats struct {
	Accounts, Requests, Transactions int
}

// View is a store at one moment. Safe for concurrent use.
type View struct{}

// State is an account as a view has it.
type State struct {
	ID        ID
	Exists    bool
	Balance   int64
	Projected int64 // with refills up to the asked time
	Updated   quota.Time
	Refilled  quota.Time
	Expires   quota.Time // 0 is never
	Policy    *PolicyRef // nil: none
	Rule      *Policy
	PolicySet quota.Time
	Next      quota.Time // of the refill that would change it; 0 is none
	Version   uint64     // grows with every change
	Holder    Tx         // of the transaction that holds it; zero: nobody
	History   []Change   // newest first; only from History
}

// Change is one change of an account.
type Change struct {
	At            quota.Time
	By, RequestID string
	Previous, New int64
	Policy        *PolicyRef // that it set, if it did
}

// Get returns an account as it is at now; one that has expired does not exist.
func (v View) Get(now quota.Time, id ID) State { panic("contract") }

// History is Get with the last changes.
func (v View) History(now quota.Time, id ID) State { panic("contract") }

// Filter says what List is about. App and Realm are always looked at.
type Filter struct {
	App, Realm          string
	Identity, Namespace *string
	NamePrefix          string
	Resource            string // empty: all
}

// List returns up to limit accounts behind after (the zero ID: from the start), in order
// of their ids' parts.
func (v View) List(now quota.Time, f Filter, after ID, limit int) []State { panic("contract") }

// Pending is a transaction that somebody has to bring to its end.
type Pending struct {
	Tx     Tx
	Since  quota.Time      // begun or prepared
	Others []quota.RangeID // at home
	// Decided and Commit are known at home only.
	Decided, Commit bool
	AtHome          bool
}

// Pending returns up to limit transactions, oldest first.
func (v View) Pending(limit int) []Pending { panic("contract") }

// Decision returns what home knows of a transaction.
func (v View) Decision(id TxID) (p Pending, known bool) { panic("contract") }

// Write writes a snapshot: the same bytes on every replica.
func (v View) Write(w io.Writer) error { panic("contract") }

// Restore replaces the store by a snapshot. An error leaves it as it was.
func (s *Store) Restore(r io.Reader) error { panic("contract") }
