package quota

// NoLeaderError reports that a call needs a leader and none answered. Try again: elections take
// less than two seconds.
type NoLeaderError struct{ Reason string }

// Error implements error.
func (e *NoLeaderError) Error() string { return "no leader: " + e.Reason }

// NoLeader marks the error as worth a retry, for package api.
func (e *NoLeaderError) NoLeader() bool { return true }

// UnknownOutcomeError reports that a call may have been carried out: its answer was lost, and a
// repetition could do it twice.
type UnknownOutcomeError struct{ Reason string }

// Error implements error.
func (e *UnknownOutcomeError) Error() string { return "the outcome is not known: " + e.Reason }

// MayBeDone marks the error as one of a call that may have been carried out, for package api.
func (e *UnknownOutcomeError) MayBeDone() bool { return true }
