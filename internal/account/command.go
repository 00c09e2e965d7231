package account

import "github.com/quorate/quorate/internal/quota"

// Command is one change of a range, from one log entry. Exactly one field is set.
type Command struct {
	Apply   *Request // a request on this range alone
	Begin   *Begin   // this range is home: make the record and prepare
	Prepare *Prepare // another range is home
	Decide  *Decide  // this range is home
	Finish  *Finish  // carry out the decision, on another range or on home
	Forget  *TxID    // this range is home, and all others have finished
	Collect *Collect
}

// Begin makes the record of a transaction at its home and prepares the home's own part; if that
// fails, Begin changes nothing. Begin does not restart a transaction that was begun, decided or
// aborted before: the outcome reports its state.
//
// More holds other calls that commit atomically with this one. They run in order, and each sees the
// accounts as the calls before it prepared them. The outcome holds the results of all calls in a
// row, or the outcome of the first call that cannot be prepared.
type Begin struct {
	Tx     TxID
	Home   quota.RangeID   // this range; sent to callers that meet a held account
	Others []quota.RangeID // the other participants, ascending, without home
	Part   Request
	More   []Request
}

// Prepare checks one part of a transaction and holds its accounts until Finish. A transaction that
// finished here in the last 10 minutes is not prepared again. A request id that this range
// remembers with the same hash does not stop Prepare: only home knows whether the id has expired.
type Prepare struct {
	Tx   Tx
	Part Request
	More []Request // as in Begin
}

// Decide commits or aborts at home. The first decision stands, and the outcome reports it. Aborting
// an unknown transaction leaves a mark for 10 minutes, which keeps it from being begun later. A
// commit carries the results that the other ranges prepared, so that home can answer a repetition
// of the request.
type Decide struct {
	Tx      TxID
	Commit  bool
	Results []Result   // when committing: of all operations of the call
	More    [][]Result // results of Begin's other calls
}

// Finish carries out a decision, once, where a part was prepared. An unknown transaction counts as
// finished and cannot be prepared for 10 minutes. At home Finish does nothing.
type Finish struct {
	Tx     TxID
	Commit bool
}

// Collect deletes up to Max expired accounts and up to Max expired request ids.
type Collect struct{ Max int }

// Code is the outcome of a command.
type Code uint8

// The possible outcomes of a command.
const (
	Done       Code = iota // applied, prepared, decided as asked, or finished
	Repeated               // the request was applied before; Results and At are those of the first answer
	Failed                 // an operation failed; Results says which, and nothing changed
	Mismatched             // the request id was used with other operations
	Held                   // transaction Holder holds an account or the request id
	Full                   // the store is at a bound; Message names it
	Committed              // of a Begin, Prepare or Decide: already committed
	Aborted                // of a Begin, Prepare or Decide: already aborted; of a Decide to commit also: unknown
)

// Outcome is the answer to a command.
type Outcome struct {
	Code    Code
	Results []Result // one per operation of the part; when Repeated, one per operation of the call
	// Under holds the policy that governed each operation of the part, nil for none. It is set with
	// Failed, and with Done of an Apply, Begin or Prepare.
	Under   []*PolicyRef
	At      quota.Time // when the command was applied
	Holder  Tx         // with Held
	Message string     // with Full
}
