package account

import "github.com/quorate/quorate/internal/quota"

// Command is one entry's change of a range; exactly one field is set.
type Command struct {
	Apply   *Request // on this range alone
	Begin   *Begin   // here is home: makes the record, and prepares
	Prepare *Prepare // another range is home
	Decide  *Decide  // here is home
	Finish  *Finish  // another range, or this one, was told what was decided
	Forget  *TxID    // here is home: all others have finished
	Collect *Collect
}

// Begin makes the record of a transaction at its home, and prepares the home's own
// part, if that fails nothing is made. A transaction that was begun, decided or
// aborted before is not begun again: the outcome says what it is.
//
// More are other calls that are committed with it, or not at all, one after the other: each
// finds the accounts as those before it have prepared them. The outcome has the results of
// all of them in a row; if one cannot be prepared it is the outcome of that one.
type Begin struct {
	Tx     TxID
	Home   quota.RangeID   // this range: whoever meets an account that is held is told
	Others []quota.RangeID // that take part besides home, ascending
	Part   Request
	More   []Request
}

// Prepare checks a part of a transaction and holds its accounts until Finish. One that
// was finished here in the last 10 minutes is not prepared again. A request id that is
// remembered with the same hash does not stop it: home alone knows whether its time is over.
type Prepare struct {
	Tx   Tx
	Part Request
	More []Request // as of Begin
}

// Decide commits or aborts at home, once: the first decision stands, and is what
// the outcome says. Aborting what is not known leaves a mark, for 10 minutes, that keeps it from being
// begun later. Committing takes what the other ranges have prepared along, for the
// answer to a repetition of the request.
type Decide struct {
	Tx      TxID
	Commit  bool
	Results []Result   // of all operations of the call; when committing
	More    [][]Result // those of Begin's other calls
}

// Finish carries a decision out where a part was prepared, once. What is not known
// is finished already, and cannot be prepared for 10 minutes. At home it does nothing.
type Finish struct {
	Tx     TxID
	Commit bool
}

// Collect deletes up to Max accounts and up to Max request ids whose time is over.
type Collect struct{ Max int }

// Code is what became of a command.
type Code uint8

// What can become of a command.
const (
	Done       Code = iota // applied, prepared, decided as asked, or finished
	Repeated               // the request was applied before; Results and At are the first answer's
	Failed                 // an operation failed: Results says which; nothing was changed
	Mismatched             // the request id was used for other operations
	Held                   // an account, or the request id, is held by transaction Holder
	Full                   // a bound of the store: Message says which
	Committed              // of a Begin, Prepare or Decide: it was committed before
	Aborted                // of a Begin, Prepare or Decide: it was aborted before; of a Decide to commit also: it is not known
)

// Outcome is the answer to a command.
type Outcome struct {
	Code    Code
	Results []Result // one per operation of the part; of all of the call when Repeated
	// Under is the policy that each operation of the part went by, nil for none: with Done of an
	// Apply, Begin or Prepare, and with Failed.
	Under   []*PolicyRef
	At      quota.Time // when it was applied
	Holder  Tx         // with Held
	Message string     // with Full
}
