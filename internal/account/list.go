package account

import (
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

// Filter selects accounts for List. App and Realm always apply.
type Filter struct {
	App, Realm          string
	Identity, Namespace *string
	NamePrefix          string
	Resource            string // empty matches all
}

// List returns up to limit accounts that sort after the given id (the zero ID: from the start), in
// order of their ids' parts. It seeks past accounts that cannot match, by the parts from the left.
// It scans every account only when the filter has a resource type, or a namespace without an
// identity, and every account has its own name, or identity.
func (v View) List(now quota.Time, f Filter, after ID, limit int) []State {
	if v.accounts.none() || limit <= 0 {
		return nil
	}
	now = max(now, v.now)
	var list []State
	from := f.App + separator + f.Realm + separator
	if after != (ID{}) {
		from = max(from, after.key()+separator)
	}
	// Each round seeks to the next possible match and reads on from there.
	for from != "" && len(list) < limit {
		start := from
		from = ""
		v.accounts.Ascend(&record{key: start}, func(r *record) bool {
			id, _ := parseKey(r.key)
			skip, done := f.skip(id)
			if done {
				return false
			}
			if skip != "" {
				from = skip
				return false
			}
			if !r.expired(now) {
				s := r.state(now, id)
				s.Holder = v.holder(r.key)
				list = append(list, s)
			}
			return len(list) < limit
		})
	}
	return list
}

// skip returns the key to seek to from an account that does not match, always above the account's
// own key. done means that nothing further can match. Neither means that the account matches.
func (f *Filter) skip(id ID) (to string, done bool) {
	realm := id.App + separator + id.Realm + separator
	if id.App != f.App || id.Realm != f.Realm {
		return "", true
	}
	if f.Identity != nil && id.Identity != *f.Identity {
		if id.Identity > *f.Identity {
			return "", true
		}
		return realm + *f.Identity + separator, false
	}
	identity := realm + id.Identity
	past := behind(identity) // beyond all of this identity
	if f.Namespace != nil && id.Namespace != *f.Namespace {
		if id.Namespace > *f.Namespace {
			return past, false
		}
		return identity + separator + *f.Namespace + separator + f.NamePrefix, false
	}
	namespace := identity + separator + id.Namespace
	if !strings.HasPrefix(id.Name, f.NamePrefix) {
		if id.Name > f.NamePrefix {
			return behind(namespace), false
		}
		return namespace + separator + f.NamePrefix, false
	}
	if f.Resource != "" && id.Resource != f.Resource {
		name := namespace + separator + id.Name
		if id.Resource > f.Resource {
			return behind(name), false
		}
		return name + separator + f.Resource, false
	}
	return "", false
}

// behind returns a key that sorts after every key with this prefix as whole parts: neither a
// separator nor a character of a part lies between.
func behind(prefix string) string { return prefix + "\x01" }
