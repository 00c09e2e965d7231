package quota

import "fmt"

// AnyVersion as the expected version of a Change stands for whatever is in
// force.
const AnyVersion = -1

// Change replaces the limits of a cluster.
type Change struct {
	Limits []Limit
	// Expect is the version that must be in force, or the change is a
	// ConflictError; 0 is before the first, AnyVersion whatever it is.
	Expect  int64
	By      string // who; at most MaxNameLen bytes
	Comment string // why; at most MaxCommentLen bytes
	// RollbackTo is the version that this change brings back; 0 is none.
	RollbackTo uint64
}

// Version is one entry of the history of limits.
type Version struct {
	Number     uint64
	At         Time // wall clock of the leader that took it
	By         string
	Comment    string
	RollbackTo uint64
	Limits     int // how many there are
	// Added, Changed and Removed count the difference to the version before.
	Added, Changed, Removed int
}

// ConflictError says that limits were changed by somebody else meanwhile.
type ConflictError struct {
	Expected int64  // by the caller
	Current  uint64 // in force
	By       string // who made Current
}

func (e *ConflictError) Error() string {
	who := ""
	if e.By != "" {
		who = " (by " + e.By + ")"
	}
	return fmt.Sprintf("limits: expected version %d, but version %d%s is in force; read it again and repeat the change on it", e.Expected, e.Current, who)
}

// UnknownVersionError says that the history has no such version.
type UnknownVersionError struct {
	Version        uint64
	Oldest, Newest uint64 // that it has
}

func (e *UnknownVersionError) Error() string {
	return fmt.Sprintf("limits: there is no version %d; the history has %d to %d", e.Version, e.Oldest, e.Newest)
}
