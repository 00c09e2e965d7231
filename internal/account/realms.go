package account

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// Realm is a realm of an application that has accounts or policy configs.
type Realm struct {
	App, Name string
	Accounts  bool // has accounts
	Configs   int  // number of policy configs
}

// Compare orders realms by application and name: negative if r comes before other.
func (r Realm) Compare(other Realm) int {
	return cmp.Or(cmp.Compare(r.App, other.App), cmp.Compare(r.Name, other.Name))
}

// Realms returns up to limit realms that have accounts and sort after the given one (the zero Realm:
// from the start), sorted. It reads one account per realm, and those that have expired before it.
func (v View) Realms(now quota.Time, after Realm, limit int) []Realm {
	if v.accounts.none() || limit <= 0 {
		return nil
	}
	now = max(now, v.now)
	var list []Realm
	from := ""
	if after != (Realm{}) {
		from = behind(after.App + separator + after.Name)
	}
	// Each round seeks past the realm that the round before found.
	for found := true; found && len(list) < limit; {
		found = false
		v.accounts.Ascend(&record{key: from}, func(r *record) bool {
			if r.expired(now) {
				return true
			}
			id, _ := parseKey(r.key)
			list = append(list, Realm{App: id.App, Name: id.Realm, Accounts: true})
			from, found = behind(id.App+separator+id.Realm), true
			return false
		})
	}
	return list
}

// MergeRealms merges lists of realms into one sorted list of up to limit.
func MergeRealms(limit int, lists ...[]Realm) []Realm {
	all := slices.Concat(lists...)
	slices.SortFunc(all, Realm.Compare)
	out := all[:0]
	for _, r := range all {
		if n := len(out); n > 0 && out[n-1].Compare(r) == 0 {
			out[n-1].Accounts = out[n-1].Accounts || r.Accounts
			out[n-1].Configs += r.Configs
			continue
		}
		out = append(out, r)
	}
	return out[:min(max(limit, 0), len(out))]
}
