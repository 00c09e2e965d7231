package attach

import (
	"errors"

	"github.com/quorate/quorate/internal/quota"
)

// Host is a node that client processes attach to. It is safe for concurrent use.
type Host interface {
	// Attach starts an attachment. When it returns, out holds the welcome and the limits; later
	// messages follow. An earlier attachment of the same process ends. The errors are ErrFull,
	// ErrShare, ErrStopping, and ErrStale for an attachment that is not newer than the last known
	// one.
	Attach(h *Hello, out *Outbox) (Session, error)
}

// Session is one attachment. It must not be called concurrently.
type Session interface {
	// Report books a report of the process; the answer goes to the outbox. The attachment
	// determines sender, incarnation and term.
	Report(r *quota.Report)
	// Settle settles an earlier attachment once all parts of the settlement have arrived, which may
	// take a while; the answer goes to the outbox. A settlement that lacks a part, exceeds
	// MaxSettling or cannot be settled yet is not answered: the process then repeats all parts.
	Settle(s *Settlement)
	// Refused counts the units that the process refused since the last call because the cost
	// exceeds what the limit can ever allow. Only the history uses them.
	Refused(limit quota.LimitName, u quota.Units)
	// End reports the end of the stream.
	End()
}

// Bounds of settlements.
const (
	// MaxSettling bounds the concurrent settlements of one process.
	MaxSettling = 8
	// MaxParts bounds the messages of one settlement.
	MaxParts = 24
	// MaxRefused bounds the limits in one message of refusals.
	MaxRefused = 1000
)

// The errors of Host.Attach.
var (
	ErrFull     = errors.New("too many clients at this node; attach to another")
	ErrShare    = errors.New("too many clients of this caller at this node; attach to another")
	ErrStopping = errors.New("the node is stopping; attach to another")
	ErrStale    = errors.New("stale attachment: a later one of this process, or a later process of that name, is known")
)

// Hello identifies a process that attaches.
type Hello struct {
	// Client is unique among all live processes.
	Client      quota.NodeID
	Incarnation quota.Incarnation
	Attachment  quota.Term
	// Owner is the caller to whom shares are charged: an identity or an address; empty if unknown.
	Owner string
	// May reports whether the process may use limits of a namespace; nil allows all. It is safe for
	// concurrent use.
	May func(namespace string) bool
	// MayReport reports whether the process may refund and report use in a namespace; nil allows all. It is safe for
	// concurrent use.
	MayReport func(namespace string) bool
}

// Settlement carries what an earlier attachment had counted.
type Settlement struct {
	// Node and Incarnation identify the process of the node that the attachment was to.
	Node        quota.NodeID
	Incarnation quota.Incarnation
	// Part is the number of this part, from 1 to Parts.
	Part, Parts int
	// Report is a part of the attachment's last report. Its Term is the attachment; Full is set in
	// the last part. All entries are final. Unreported is the use that the node has not
	// acknowledged as far as the process knows.
	Report quota.Report
}
