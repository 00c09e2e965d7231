package quota

import "fmt"

// AnyVersion as Change.Expect matches every current version.
const AnyVersion = -1

// Change replaces the limits of a cluster.
type Change struct {
	Limits []Limit
	// Expect is the version that must be current, else the change fails with a ConflictError. 0 is
	// the state before the first version; AnyVersion matches any.
	Expect  int64
	By      string // who; at most MaxNameLen bytes
	Comment string // why; at most MaxCommentLen bytes
	// RollbackTo is the version that this change restores; 0 if it restores none.
	RollbackTo uint64
}

// Version describes one version in the history of limits.
type Version struct {
	Number     uint64
	At         Time // wall clock of the leader that proposed it
	By         string
	Comment    string
	RollbackTo uint64
	Limits     int // number of limits
	// Added, Changed and Removed count the differences from the previous version.
	Added, Changed, Removed int
}

// ConflictError reports a change of the limits by another caller in the meantime.
type ConflictError struct {
	Expected int64  // by the caller
	Current  uint64 // current version
	By       string // who made Current
}

func (e *ConflictError) Error() string {
	who := ""
	if e.By != "" {
		who = " (by " + e.By + ")"
	}
	return fmt.Sprintf("limits: expected version %d, but version %d%s is active; read it and repeat the change on it", e.Expected, e.Current, who)
}

// UnknownVersionError reports that the history does not contain the version.
type UnknownVersionError struct {
	Version        uint64
	Oldest, Newest uint64 // oldest and newest version in the history
}

func (e *UnknownVersionError) Error() string {
	return fmt.Sprintf("limits: unknown version %d; the history has %d to %d", e.Version, e.Oldest, e.Newest)
}
