package attach

import (
	"errors"

	"github.com/quorate/quorate/internal/quota"
)

// Host is a node that client processes attach to. Safe for concurrent use.
type Host interface {
	// Attach begins an attachment: its welcome and its limits are in out when it
	// returns, and later messages for it follow. An earlier attachment of
	// the same process ends. The errors are ErrFull, ErrShare, ErrStopping, and ErrStale for an
	// attachment that is not newer than the last known one.
	Attach(h *Hello, out *Outbox) (Session, error)
}

// Session is one attachment. One goroutine at a time calls it.
type Session interface {
	// Report books a report of this attachment; the answer goes to the outbox. Its
	// sender, life and term are those of the attachment.
	Report(r *quota.Report)
	// Settle settles an earlier attachment once all parts of the settlement have arrived,
	// which may take a while; the answer goes to the outbox. There is no answer to a settlement
	// that cannot be settled yet, lacks a part, or exceeds MaxSettling: the process then
	// repeats all parts.
	Settle(s *Settlement)
	// Refused counts the units that the process refused since the last call because the cost
	// exceeds what the limit can ever allow. Only the history uses them.
	Refused(limit quota.LimitName, u quota.Units)
	// End says that the stream is over.
	End()
}

// Bounds of settlements.
const (
	// MaxSettling bounds the settlements of one process that are under way.
	MaxSettling = 8
	// MaxParts bounds the messages of one settlement.
	MaxParts = 24
	// MaxRefused bounds the limits of a message of refusals.
	MaxRefused = 1000
)

// The errors of Host.Attach.
var (
	ErrFull     = errors.New("the node has as many clients as it may; attach to another")
	ErrShare    = errors.New("this identity has as many clients at the node as it may; attach to another")
	ErrStopping = errors.New("the node stops; attach to another")
	ErrStale    = errors.New("a later attachment of this process, or a later process of that name, is known")
)

// Hello says who attaches.
type Hello struct {
	// Client names the process among all that live.
	Client      quota.NodeID
	Incarnation quota.Incarnation
	Attachment  quota.Term
	// Owner is the identity of the caller; empty if unknown.
	Owner string
	// May reports whether the process may use limits of a namespace; nil allows all. It is safe
	// for concurrent use.
	May func(namespace string) bool
}

// Settlement is what an earlier attachment had counted.
type Settlement struct {
	// Node is whom that attachment was to, and Life the process of it.
	Node quota.NodeID
	Life quota.Incarnation
	// Part is the number of this part of Parts, from 1 on.
	Part, Parts int
	// Report is a part of the attachment's last report. Its Term is the attachment, and
	// Full is set in the last part. All its entries are final. Unreported is the use that,
	// as far as the process knows, the node has not acknowledged.
	Report quota.Report
}
