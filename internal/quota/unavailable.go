package quota

// NoLeaderError reports that a call needs a leader and none answered. Retry: elections take less
// than two seconds.
type NoLeaderError struct{ Reason string }

// Error implements error.
func (e *NoLeaderError) Error() string { return "no leader: " + e.Reason }

// NoLeader marks the error as retryable, for package api.
func (e *NoLeaderError) NoLeader() bool { return true }

// UnknownOutcomeError reports that the answer of a call was lost. The call may have been executed;
// repeating it could execute it twice.
type UnknownOutcomeError struct{ Reason string }

// Error implements error.
func (e *UnknownOutcomeError) Error() string { return "outcome unknown: " + e.Reason }

// MayBeDone marks the error, for package api, as that of a call that may have been executed.
func (e *UnknownOutcomeError) MayBeDone() bool { return true }
