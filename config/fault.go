package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// maxFaults bounds the faults of one source, so that a file of the wrong kind cannot fill the
// memory.
const maxFaults = 1000

// FileError holds every fault of one source: a file, or the environment.
type FileError struct {
	Source string
	Faults []Fault // at least one, in the order of the source
}

// Fault is one thing that is wrong, and where.
type Fault struct {
	Line, Column int    // from 1, in characters; 0 when the fault has no place
	Path         string // the field, such as namespaces.web.limits.login.rate
	Message      string // what is wrong, and what would be right
	Excerpt      string // the source line with a caret below, or empty
}

// Error returns all faults, each as file:line:column: path: message and the
// source line with a caret.
func (e *FileError) Error() string {
	var b strings.Builder
	for i, f := range e.Faults {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.Source)
		if f.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", f.Line, f.Column)
		}
		if f.Path != "" {
			b.WriteString(": " + f.Path)
		}
		b.WriteString(": " + f.Message)
		if f.Excerpt != "" {
			b.WriteString("\n" + f.Excerpt)
		}
	}
	return b.String()
}

// A report collects the faults of one source.
type report struct {
	source string
	data   []byte
	faults []Fault
	more   bool // some faults were dropped
}

// fault adds a fault at a place in the file. Line 0 means that the fault has no place.
func (r *report) fault(line, column int, path, format string, args ...any) {
	if len(r.faults) == maxFaults {
		r.more = true
		return
	}
	r.faults = append(r.faults, Fault{Line: line, Column: column, Path: path, Message: fmt.Sprintf(format, args...)})
}

// faultAt adds a fault at a YAML node.
func (r *report) faultAt(n *yaml.Node, path, format string, args ...any) {
	r.fault(n.Line, n.Column, path, format, args...)
}

// err returns the faults as a *FileError, or nil without faults.
func (r *report) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(r.faults, func(a, b Fault) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
	addExcerpts(r.data, r.faults)
	if r.more {
		r.faults = append(r.faults, Fault{Message: fmt.Sprintf("has more than %d faults; the others are not listed", maxFaults)})
	}
	return &FileError{Source: r.source, Faults: r.faults}
}

// clipAt is how many characters of a value an error shows.
const clipAt = 60

// clip quotes a value for an error and cuts a long one short.
func clip(s string) string {
	if r := []rune(s[:min(len(s), 4*clipAt+4)]); len(r) > clipAt {
		s = string(r[:clipAt]) + "…"
	}
	return strconv.Quote(s)
}
