package accounts

import (
	"context"
	"errors"
	"fmt"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/transport"
)

// UnavailableError reports that a call got no answer in time, and whether it may have been applied.
type UnavailableError struct {
	// Unknown means that the call may have been applied, or may still be. A caller that set a
	// request ID can repeat the call with the same ID; without one, it must read the accounts
	// first. If Unknown is false, nothing was applied.
	Unknown bool
	// Overloaded means that too many calls were waiting.
	Overloaded bool
	Reason     string
}

// Error describes the outcome as far as it is known.
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

// MayBeDone reports to package api whether the call may have been applied.
func (e *UnavailableError) MayBeDone() bool { return e.Unknown }

// TooBusy reports to package api whether too many calls were waiting.
func (e *UnavailableError) TooBusy() bool { return e.Overloaded }

// ConflictError reports that other calls changed or held the accounts of a reading for too long.
// Nothing was changed; the caller may retry.
type ConflictError struct{ Reason string }

func (e *ConflictError) Error() string { return "accounts: " + e.Reason }

// Aborted marks the error for package api.
func (e *ConflictError) Aborted() bool { return true }

// Outcomes of one try. Every error except errRefused is retryable, errUnknown only if a repetition
// is safe.
var (
	errNotLeader  = errors.New("no leader took it, nothing was done")
	errOverloaded = errors.New("too many queued commands; nothing was done")
	errUnknown    = errors.New("the outcome is not known")
	errRefused    = errors.New("refused")
	errClosing    = errors.New("this node is closing")
	errStopped    = errors.New("the coordinator was stopped") // by a test
)

// logError maps an error of a range's Raft group to the outcome of a command.
func logError(err error) error {
	switch {
	case errors.Is(err, raftgroup.ErrUncertain):
		return fmt.Errorf("%w: %w", errUnknown, err)
	case errors.Is(err, raftgroup.ErrTooLarge):
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return fmt.Errorf("%w: %w", errNotLeader, err)
}

// wireError maps an error of a call to another node to the outcome of a command. Only a command
// that this node did not send is certain not to have been applied. A fault in the other node's
// reply proves nothing: it may have failed only to send the answer.
func wireError(err error) error {
	switch {
	case errors.Is(err, transport.ErrUnreachable), errors.Is(err, transport.ErrBusy):
		return fmt.Errorf("%w: %w", errNotLeader, err)
	case errors.Is(err, transport.ErrTooLarge):
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return fmt.Errorf("%w: %w", errUnknown, err)
}

// faultOf encodes the error of a try for the wire.
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

// faultError decodes an error from the wire.
func faultError(f peerv1.AccountFault, reason string) error {
	kind := errUnknown // for a fault that only a newer version knows
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

// callerError maps the last error of a call that has run out of time to the error for the caller. doubt
// means that an earlier try may have been applied.
func callerError(err error, doubt bool) error {
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
