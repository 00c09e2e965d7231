// Package zone loads time zones by name. It falls back to data inside the binary, so that all nodes
// know the same names.
//
// A name always returns the same pointer: limits with the same zone compare equal.
package zone

import (
	"fmt"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // zones on machines without a zone database
)

var loaded sync.Map // name -> *time.Location

// Load returns the zone with an IANA name, such as Europe/Berlin. The empty name and "UTC" return
// nil, which package quota treats as UTC. "Local" is an error, because it differs between nodes.
// Load is safe for concurrent use.
func Load(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return nil, nil
	}
	if l, ok := loaded.Load(name); ok {
		return l.(*time.Location), nil
	}
	l, err := time.LoadLocation(name)
	if err != nil || name == "Local" || strings.TrimSpace(name) != name {
		return nil, fmt.Errorf("time zone %q: is not known; must be an IANA name, such as UTC, Europe/Berlin or America/New_York", name)
	}
	kept, _ := loaded.LoadOrStore(name, l)
	return kept.(*time.Location), nil
}

// Name returns the name of a zone for Load: "UTC" for nil.
func Name(l *time.Location) string {
	if l == nil {
		return "UTC"
	}
	return l.String()
}
