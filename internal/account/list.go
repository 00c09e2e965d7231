package account

import (
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

// Filter says what List is about. App and Realm are always looked at.
type Filter struct {
	App, Realm          string
	Identity, Namespace *string
	NamePrefix          string
	Resource            string // empty: all
}

// List returns up to limit accounts behind after (the zero ID: from the start), in order
// of their ids' parts. It skips what cannot match, by the parts from the left; it looks
// at every account only where a resource type is asked for, or a namespace of all
// identities, and every account has a name, or an identity, of its own.
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
	// Each round reads on from where a match may be next.
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

// skip says where to go on from an account that does not match; done says that nothing
// behind it can match. Neither: it matches. A key that is returned is above the
// account's own.
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
	past := behind(identity) // all of this identity
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

// behind returns the key behind all those that have a part in common: no character of a
// part, and no separator, lies between.
func behind(prefix string) string { return prefix + "\x01" }
