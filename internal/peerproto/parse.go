package peerproto

import (
	"fmt"
	"strings"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds of parsed messages.
const (
	// MaxEntries bounds the keys of one report or grant.
	MaxEntries = 4096
	// MaxKeyLen bounds a key, in bytes. The key of a template's bucket is prefixed with the limit's
	// name and a slash.
	MaxKeyLen = quota.MaxNameLen + 1 + quota.MaxKeyLen
)

// ParseReport decodes a report from a client process, or returns the first fault in it: more than
// MaxEntries keys, a name that no counter has, an amount outside 0 to quota.Most, a number of 0
// where numbers start from 1, or a field that only nodes send.
func ParseReport(from quota.NodeID, m *peerv1.Report) (quota.Report, error) {
	if err := checkReport(m); err != nil {
		return quota.Report{}, err
	}
	for i, e := range m.GetEntries() {
		if err := checkReportEntry(e); err != nil {
			return quota.Report{}, fmt.Errorf("entries[%d].%w", i, err)
		}
	}
	return DecodeReport(from, m), nil
}

func checkReport(m *peerv1.Report) error {
	switch {
	case m == nil:
		return fmt.Errorf("report: is missing")
	case len(m.Entries) > MaxEntries:
		return fmt.Errorf("entries: %d; at most %d", len(m.Entries), MaxEntries)
	case m.Range != 0:
		return fmt.Errorf("range: %d; a node is one range, 0", m.Range)
	case m.Seq == 0:
		return fmt.Errorf("seq: 0; reports are numbered from 1")
	case m.Term == 0:
		return fmt.Errorf("term: 0; sessions are numbered from 1")
	case m.Incarnation == 0:
		return fmt.Errorf("incarnation: 0; must be above")
	}
	return notBelow("age_nanos", m.AgeNanos)
}

func checkReportEntry(e *peerv1.ReportEntry) error {
	if err := CheckKey(key(e.GetNamespace(), e.GetLimit(), e.GetKey())); err != nil {
		return err
	}
	switch {
	case e.Epoch == 0:
		return fmt.Errorf("epoch: 0; openings are numbered from 1")
	case e.Life != 0:
		return fmt.Errorf("life: %d; only a node has earlier incarnations, must be 0", e.Life)
	case len(e.Cancelled) > quota.MaxCancelled:
		return fmt.Errorf("abandoned: %d; at most %d", len(e.Cancelled), quota.MaxCancelled)
	}
	for _, a := range [...]amount{
		{"used", e.Used},
		{"overdrawn", e.Overdrawn},
		{"refused", e.Refused},
		{"held", e.Held},
		{"want", e.Want},
		{"cost", e.Cost},
		{"unreported", e.Unreported},
		{"refunded", e.Refunded},
		{"in_flight", e.InFlight},
		{"before", e.Before},
		{"charged", e.Charged},
		{"alone", e.Alone},
		{"saved", e.Saved},
		{"returned", e.Returned},
	} {
		if err := a.check(); err != nil {
			return err
		}
	}
	if err := notBelow("accrued_to", e.AccruedTo); err != nil {
		return err
	}
	if err := notBelow("window", e.Window); err != nil {
		return err
	}
	return checkLearn(e.Learn)
}

func checkLearn(l *peerv1.Learn) error {
	if l == nil {
		return nil
	}
	if q := quota.Units(l.Level); q < -quota.Most || q > quota.Most {
		return fmt.Errorf("learn.level: %d; must be %d to %d", l.Level, -int64(quota.Most), int64(quota.Most))
	}
	for _, a := range [...]amount{{"learn.rate", l.Rate}, {"learn.cap", l.Cap}} {
		if err := a.check(); err != nil {
			return err
		}
	}
	return notBelow("learn.window_end", l.WindowEnd)
}

// ParseGrant decodes a grant that a client process got from its node, or returns the first fault in
// it: more than MaxEntries keys, a name that no counter has, tokens, a rate or a cap outside 0 to
// quota.Most, or a negative lease.
func ParseGrant(from, to quota.NodeID, m *peerv1.Grant) (quota.Grant, error) {
	switch {
	case m == nil:
		return quota.Grant{}, fmt.Errorf("grant: is missing")
	case len(m.Entries) > MaxEntries:
		return quota.Grant{}, fmt.Errorf("entries: %d; at most %d", len(m.Entries), MaxEntries)
	case m.Range != 0:
		return quota.Grant{}, fmt.Errorf("range: %d; a node is one range, 0", m.Range)
	}
	for i, e := range m.Entries {
		if err := checkGrantEntry(e); err != nil {
			return quota.Grant{}, fmt.Errorf("entries[%d].%w", i, err)
		}
	}
	return DecodeGrant(from, to, m), nil
}

func checkGrantEntry(e *peerv1.GrantEntry) error {
	if err := CheckKey(key(e.GetNamespace(), e.GetLimit(), e.GetKey())); err != nil {
		return err
	}
	for _, a := range [...]amount{{"tokens", e.Tokens}, {"rate", e.Rate}, {"cap", e.Cap}, {"burst", e.Burst}, {"saved", e.Saved}} {
		if err := a.check(); err != nil {
			return err
		}
	}
	if err := notBelow("lease_nanos", e.LeaseNanos); err != nil {
		return err
	}
	return notBelow("again_nanos", e.AgainNanos)
}

// CheckKey returns an error that names the field unless k can name the bucket of a counter: of a
// limit, of one of its tiers or its floor, of a template or of a default. Inline limits, which
// requests carry, have no counter.
func CheckKey(k quota.Key) error {
	name, suffix, cut := strings.Cut(k.Limit, "#")
	if cut && !counterSuffix(suffix) {
		return fmt.Errorf("limit: %q; what follows # must be floor or the number of a tier, from 2 to %d", k.Limit, quota.MaxTiers)
	}
	if n := len(k.Key); n == 0 || n > MaxKeyLen {
		return fmt.Errorf("key: is %d bytes; must be 1 to %d", n, MaxKeyLen)
	}
	if (quota.LimitName{Namespace: k.Namespace, Limit: name}) == quota.Global {
		return nil
	}
	if err := quota.CheckName("namespace", k.Namespace); err != nil {
		return err
	}
	if name == quota.Default || name == quota.Template {
		return nil
	}
	return quota.CheckName("limit", name)
}

func counterSuffix(s string) bool {
	if s == "floor" {
		return true
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' || len(s) > 2 {
			return false
		}
		n = 10*n + int(c-'0')
	}
	return n >= 2 && n <= quota.MaxTiers && s[0] != '0'
}

type amount struct {
	field string
	v     int64
}

func (a amount) check() error {
	if a.v < 0 || quota.Units(a.v) > quota.Most {
		return fmt.Errorf("%s: %d; must be 0 to %d", a.field, a.v, int64(quota.Most))
	}
	return nil
}

func notBelow(field string, v int64) error {
	if v < 0 {
		return fmt.Errorf("%s: %d (%v); must be 0 or more", field, v, time.Duration(v))
	}
	return nil
}
