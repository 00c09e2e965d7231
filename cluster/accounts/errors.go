package accounts

import (
	"context"
	"errors"
	"fmt"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/transport"
)

// UnavailableError says that a call was not answered in its time, and whether it may have
// been carried out.
type UnavailableError struct {
	// Unknown says that the call may have been carried out, or may yet be. With the
	// same request id it can be made again; without one look at the accounts first.
	// Otherwise nothing was done.
	Unknown bool
	// Overloaded says that too many calls wait.
	Overloaded bool
	Reason     string
}

// Error says what is known.
func (e *UnavailableError) Error() string {
	switch {
	case e.Unknown:
		return "accounts: the outcome is not known: " + e.Reason
	case e.Overloaded:
		return "accounts: overloaded, nothing was done: " + e.Reason
	}
	return "accounts: not available, nothing was done: " + e.Reason
}

// NoLeader marks the error for package api.
func (e *UnavailableError) NoLeader() bool { return true }

// MayBeDone says for package api whether the call may have been carried out.
func (e *UnavailableError) MayBeDone() bool { return e.Unknown }

// TooBusy marks for package api that too many calls wait.
func (e *UnavailableError) TooBusy() bool { return e.Overloaded }

// ConflictError says that others changed or held the accounts of a reading for too
// long. Nothing was done; try again.
type ConflictError struct{ Reason string }

func (e *ConflictError) Error() string { return "accounts: " + e.Reason }

// Aborted marks the error for package api.
func (e *ConflictError) Aborted() bool { return true }

// What can become of one try. All but errRefused may be tried again; errUnknown only
// if a repetition does no harm.
var (
	errNotLeader  = errors.New("no leader took it, nothing was done")
	errOverloaded = errors.New("too many commands wait, nothing was done")
	errUnknown    = errors.New("the outcome is not known")
	errRefused    = errors.New("refused")
	errClosing    = errors.New("this node is closing")
	errStopped    = errors.New("the coordinator was stopped") // by a test
)

// logError says what an error of a range's group means to a command.
func logError(err error) error {
	switch {
	case errors.Is(err, raftgroup.ErrUncertain):
		return fmt.Errorf("%w: %w", errUnknown, err)
	case errors.Is(err, raftgroup.ErrTooLarge):
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return fmt.Errorf("%w: %w", errNotLeader, err)
}

// wireError says what an error of a call to another node means to a command: only what this
// node has not sent was certainly not carried out. A fault that the other node answers with
// proves nothing: it may be the answer itself that could not be sent.
func wireError(err error) error {
	switch {
	case errors.Is(err, transport.ErrUnreachable), errors.Is(err, transport.ErrBusy):
		return fmt.Errorf("%w: %w", errNotLeader, err)
	case errors.Is(err, transport.ErrTooLarge):
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return fmt.Errorf("%w: %w", errUnknown, err)
}

// faultOf is an error of a try as it travels.
func faultOf(err error) (peerv1.AccountFault, string) {
	switch {
	case err == nil:
		return peerv1.AccountFault_ACCOUNT_FAULT_UNSPECIFIED, ""
	case errors.Is(err, errOverloaded):
		return peerv1.AccountFault_ACCOUNT_FAULT_OVERLOADED, err.Error()
	case errors.Is(err, errNotLeader):
		return peerv1.AccountFault_ACCOUNT_FAULT_NOT_LEADER, err.Error()
	case errors.Is(err, errRefused):
		return peerv1.AccountFault_ACCOUNT_FAULT_REFUSED, err.Error()
	}
	return peerv1.AccountFault_ACCOUNT_FAULT_UNKNOWN, err.Error()
}

// faultError is the error that has travelled.
func faultError(f peerv1.AccountFault, reason string) error {
	kind := errUnknown // what a newer version says
	switch f {
	case peerv1.AccountFault_ACCOUNT_FAULT_UNSPECIFIED:
		return nil
	case peerv1.AccountFault_ACCOUNT_FAULT_NOT_LEADER:
		kind = errNotLeader
	case peerv1.AccountFault_ACCOUNT_FAULT_OVERLOADED:
		kind = errOverloaded
	case peerv1.AccountFault_ACCOUNT_FAULT_REFUSED:
		kind = errRefused
	}
	return fmt.Errorf("%w: %s", kind, reason)
}

// givenUp says what the last error of a call that has no time left means to the
// caller. doubt is set if an earlier try may have been carried out.
func givenUp(err error, doubt bool) error {
	switch {
	case errors.Is(err, errRefused):
		return err
	case errors.Is(err, context.Canceled):
		return err
	}
	return &UnavailableError{
		Unknown: doubt || errors.Is(err, errUnknown), Overloaded: errors.Is(err, errOverloaded), Reason: err.Error(),
	}
}
