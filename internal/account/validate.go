package account

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxBy bounds a caller's identity, in bytes.
const MaxBy = 1024

// Validate returns an error that names the first faulty field, its value and what would be valid,
// or nil.
func (id ID) Validate() error {
	for _, f := range []struct {
		name, value string
		required    bool
	}{
		{"app_id", id.App, true},
		{"realm", id.Realm, true},
		{"identity", id.Identity, false},
		{"namespace", id.Namespace, false},
		{"name", id.Name, true},
		{"resource_type", id.Resource, true},
	} {
		if err := checkAtom(f.name, f.value, f.required); err != nil {
			return err
		}
	}
	return nil
}

// Validate works as [ID.Validate].
func (k PolicyKey) Validate() error {
	if err := checkAtom("namespace", k.Namespace, false); err != nil {
		return err
	}
	if err := checkAtom("name", k.Name, true); err != nil {
		return err
	}
	return checkAtom("resource_type", k.Resource, true)
}

// Validate works as [ID.Validate].
func (c ConfigID) Validate() error {
	if err := checkAtom("app_id", c.App, true); err != nil {
		return err
	}
	if err := checkAtom("realm", c.Realm, true); err != nil {
		return err
	}
	if err := checkAtom("version", c.Version, true); err != nil {
		return err
	}
	first, rest := c.Version[0], c.Version[1:]
	switch {
	case first != '$' && first != '#':
		return fmt.Errorf("version: %q must begin with \"$\" (a hash of the content) or \"#\" (a name of your own)", c.Version)
	case rest == "" || strings.Contains(rest, "$"):
		return fmt.Errorf("version: %q must have something without \"$\" behind its first character", c.Version)
	}
	return nil
}

// Validate works as [ID.Validate].
func (r PolicyRef) Validate() error {
	if err := r.Config.Validate(); err != nil {
		return fmt.Errorf("config.%w", err)
	}
	if err := r.Key.Validate(); err != nil {
		return fmt.Errorf("key.%w", err)
	}
	return nil
}

// checkAtom checks one part of an id.
func checkAtom(field, value string, required bool) error {
	switch {
	case value == "" && required:
		return fmt.Errorf("%s: is empty; 1 to %d bytes", field, MaxAtom)
	case len(value) > MaxAtom:
		return fmt.Errorf("%s: %s has %d bytes; at most %d", field, short(value), len(value), MaxAtom)
	}
	return checkText(field, value)
}

// checkText checks that a part of an id has no forbidden characters.
func checkText(field, value string) error {
	plain := true
	for i := range len(value) {
		plain = plain && value[i] >= ' ' && value[i] < '~'
	}
	if plain {
		return nil
	}
	if !utf8.ValidString(value) {
		return fmt.Errorf("%s: %s is not UTF-8", field, short(value))
	}
	for _, c := range value {
		switch {
		case c == '~':
			return fmt.Errorf("%s: %s must not contain \"~\"", field, short(value))
		case c < ' ' || c >= 0x7f && c < 0xa0:
			return fmt.Errorf("%s: %s must not contain control characters (%U)", field, short(value), c)
		}
	}
	return nil
}

// short quotes a string, cut if it is long.
func short(s string) string {
	const most = 64
	if len(s) > most {
		return fmt.Sprintf("%q...", s[:most])
	}
	return fmt.Sprintf("%q", s)
}

// Validate works as [ID.Validate].
func (p *Policy) Validate() error {
	switch {
	case p.Limit < 0 || p.Limit > Most:
		return fmt.Errorf("limit: %d; must be 0 to %d", p.Limit, int64(Most))
	case p.Default < 0 || p.Default > p.Limit:
		return fmt.Errorf("default: %d; must be 0 to the limit, %d", p.Default, p.Limit)
	case p.Options&^AbsoluteResource != 0:
		return fmt.Errorf("options: %d; 0 or %d (ABSOLUTE_RESOURCE)", p.Options, AbsoluteResource)
	case p.Lifetime < 0:
		return fmt.Errorf("lifetime: %v; 0 (never deleted) or above", p.Lifetime)
	}
	if err := p.Refill.Validate(); err != nil {
		return fmt.Errorf("refill.%w", err)
	}
	return nil
}

const day = 86400

// Validate works as [ID.Validate].
func (r Refill) Validate() error {
	switch {
	case r.Units < -Most || r.Units > Most:
		return fmt.Errorf("units: %d; must be %d to %d", r.Units, int64(-Most), int64(Most))
	case r.Interval > 0 && day%r.Interval != 0:
		return fmt.Errorf("interval: %d does not divide a day; such as 1, 60, 3600, 21600 or 86400 seconds", r.Interval)
	case r.Interval == 0 && r.Units < 0:
		return fmt.Errorf("interval: 0 with units %d; an account that is always empty has a limit of 0 and no refill", r.Units)
	case r.Offset > day:
		return fmt.Errorf("offset: %d; must be 0 to %d seconds", r.Offset, day)
	}
	return nil
}

// Validate works as [ID.Validate]. It does not check that the policy is loaded.
func (o *Op) Validate() error {
	if err := o.Account.Validate(); err != nil {
		return fmt.Errorf("account_id.%w", err)
	}
	if err := o.checkPolicy(); err != nil {
		return err
	}
	const all = IgnorePolicyBounds | DoNotCapProposed | WithPolicyLimitDelta
	const both = IgnorePolicyBounds | DoNotCapProposed
	switch {
	case o.RelativeTo > Limit:
		return fmt.Errorf("relative_to: %d; 0 (CURRENT_BALANCE), 1 (ZERO), 2 (DEFAULT) or 3 (LIMIT)", o.RelativeTo)
	case o.Delta < -MostDelta || o.Delta > MostDelta:
		return fmt.Errorf("delta: %d; must be %d to %d", o.Delta, int64(-MostDelta), int64(MostDelta))
	case o.Options&^all != 0:
		return fmt.Errorf("options: %d has unknown bits; a sum of 1 (IGNORE_POLICY_BOUNDS), 2 (DO_NOT_CAP_PROPOSED) and 4 (WITH_POLICY_LIMIT_DELTA)", o.Options)
	case o.Options&both == both:
		return fmt.Errorf("options: %d has both IGNORE_POLICY_BOUNDS and DO_NOT_CAP_PROPOSED; one of them", o.Options)
	}
	return nil
}

func (o *Op) checkPolicy() error {
	if o.Policy == nil {
		return nil
	}
	if err := o.Policy.Validate(); err != nil {
		return fmt.Errorf("policy_id.%w", err)
	}
	if o.Policy.Key.Resource != o.Account.Resource {
		return fmt.Errorf("policy_id.key.resource_type: %s but the account's is %s", short(o.Policy.Key.Resource), short(o.Account.Resource))
	}
	if o.Rule != nil {
		if err := o.Rule.Validate(); err != nil {
			return fmt.Errorf("policy.%w", err)
		}
	}
	return nil
}

// Validate works as [ID.Validate]. Fields are named as in quorate.v1.ApplyOpsRequest, and
// operations by their positions in the call.
func (r *Request) Validate() error {
	if err := r.checkHead(); err != nil {
		return err
	}
	for i := range r.Ops {
		if err := r.Ops[i].Validate(); err != nil {
			return fmt.Errorf("ops[%d].%w", r.place(i), err)
		}
	}
	return nil
}

// checkHead checks everything but the operations.
func (r *Request) checkHead() error {
	switch {
	case len(r.By) > MaxBy || !utf8.ValidString(r.By):
		return fmt.Errorf("identity: %s; at most %d bytes of UTF-8", short(r.By), MaxBy)
	case len(r.ID) > MaxRequestID || !utf8.ValidString(r.ID):
		return fmt.Errorf("request_id: %s has %d bytes; at most %d bytes of UTF-8", short(r.ID), len(r.ID), MaxRequestID)
	case r.TTL < 0 || r.TTL > MaxTTL:
		return fmt.Errorf("request_id_ttl: %v; up to %v, or 0 for %v", r.TTL, MaxTTL, DefaultTTL)
	case len(r.Ops) == 0 || len(r.Ops) > MaxOps:
		return fmt.Errorf("ops: %d; 1 to %d", len(r.Ops), MaxOps)
	case r.Indexes != nil && len(r.Indexes) != len(r.Ops):
		return fmt.Errorf("indexes: %d for %d ops", len(r.Indexes), len(r.Ops))
	}
	return nil
}

// place returns the position in the call of the i-th operation here.
func (r *Request) place(i int) int32 {
	if i < len(r.Indexes) {
		return r.Indexes[i]
	}
	return int32(i)
}
