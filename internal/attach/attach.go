package attach

import (
	"errors"

	"github.com/quorate/quorate/internal/quota"
)

// Host is a node that client processes attach to. Safe for concurrent use.
type Host interface {
	// Attach begins an attachment: its welcome and its limits are in out when it
	// returns, and whatever else comes for it from then on. An earlier attachment of
	// the same process ends. The errors are ErrFull, ErrStopping, and ErrStale for an
	// attachment that is not newer than what is known.
	Attach(h *Hello, out *Outbox) (Session, error)
}

// Session is one attachment. One goroutine at a time calls it.
type Session interface {
	// Report books a report of this attachment; the answer goes to the outbox. Its
	// sender, life and term are those of the attachment.
	Report(r *quota.Report)
	// Settle settles an earlier attachment, which may take a while; the answer goes to
	// the outbox. What cannot be settled yet is not answered, nor is a settlement
	// while MaxSettling others are under way: the process repeats it.
	Settle(s *Settlement)
	// End says that the stream is over.
	End()
}

// MaxSettling bounds the settlements of one process that are under way.
const MaxSettling = 8

// The errors of Host.Attach.
var (
	ErrFull     = errors.New("the node has as many clients as it may; attach to another")
	ErrStopping = errors.New("the node stops; attach to another")
	ErrStale    = errors.New("a later attachment of this process, or a later process of that name, is known")
)

// Hello says who attaches.
type Hello struct {
	// Client names the process among all that live.
	Client      quota.NodeID
	Incarnation quota.Incarnation
	Attachment  quota.Term
	// May says whether the process uses limits of a namespace; nil: of all. Safe for
	// concurrent use.
	May func(namespace string) bool
}

// Settlement is what an earlier attachment had counted.
type Settlement struct {
	// Node is whom that attachment was to, and Life the process of it.
	Node quota.NodeID
	Life quota.Incarnation
	// Report is the last one of that attachment; its Term is the attachment. All its
	// entries are final, Full is set, and Unreported is what the node had not
	// acknowledged, as far as the process knows.
	Report quota.Report
}
