package leader

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// KeyCount is what was asked for of one key.
type KeyCount struct {
	Key                 string
	Attempted, Admitted quota.Units
}

// TopKeys are the keys of a limit of which most was asked, the first of them first. Of a
// key that is not among them it was at most Rest.
type TopKeys struct {
	Limit quota.LimitName
	Keys  []KeyCount
	Rest  quota.Units
}

// listing is what of an account's counts TopSince has returned.
type listing struct{ attempted, admitted quota.Units }

// maxDeparted bounds the keys whose counts are remembered although their accounts are gone.
const maxDeparted = 1024

// departs notes what was asked of a key since the last TopSince, whose account goes.
func (l *Ledger) departs(a *account) {
	d := a.since()
	if d.Attempted == 0 {
		return
	}
	was, there := l.departed[a.key]
	if !there && len(l.departed) >= maxDeparted {
		l.lost[a.key.LimitName] = max(l.lost[a.key.LimitName], d.Attempted)
		return
	}
	was.attempted, was.admitted = was.attempted.Plus(d.Attempted), was.admitted.Plus(d.Admitted)
	l.departed[a.key] = was
}

func (a *account) since() KeyCount {
	return KeyCount{a.key.Key, max(0, a.attempted-a.listed.attempted), max(0, a.admitted-a.listed.admitted)}
}

// listed reports whether keys of the counter are listed: those of the first tier of limits that are
// no caller's own.
func listed(n quota.LimitName) bool {
	base, tier := n.Base()
	return tier == 1 && base == n && !n.IsInline()
}

// TopSince returns, for every limit of which something was asked since the last call, at most each
// keys, and at most all in all; limits in order. To be called once a minute: what was
// asked of a key whose account went several times in between may be in Rest.
func (l *Ledger) TopSince(each, all int) []TopKeys {
	lists := map[quota.LimitName][]KeyCount{}
	for k, d := range l.departed {
		if l.accounts[k] == nil && listed(k.LimitName) {
			lists[k.LimitName] = append(lists[k.LimitName], KeyCount{k.Key, d.attempted, d.admitted})
		}
	}
	for k, a := range l.accounts {
		d := a.since()
		a.listed = listing{a.attempted, a.admitted}
		if was, there := l.departed[k]; there {
			d.Attempted, d.Admitted = d.Attempted.Plus(was.attempted), d.Admitted.Plus(was.admitted)
		}
		if d.Attempted > 0 && listed(k.LimitName) {
			lists[k.LimitName] = append(lists[k.LimitName], d)
		}
	}
	out := make([]TopKeys, 0, len(lists))
	for n, keys := range lists {
		slices.SortFunc(keys, func(x, y KeyCount) int {
			return cmp.Or(cmp.Compare(y.Attempted, x.Attempted), cmp.Compare(x.Key, y.Key))
		})
		out = append(out, TopKeys{Limit: n, Keys: keys, Rest: quota.Units(quota.MulDiv(int64(l.lost[n]), reopened, 1))})
	}
	slices.SortFunc(out, func(x, y TopKeys) int {
		return cmp.Or(cmp.Compare(x.Limit.Namespace, y.Limit.Namespace), cmp.Compare(x.Limit.Limit, y.Limit.Limit))
	})
	clear(l.departed)
	clear(l.lost)
	for cut(out, each) > all && each > 0 {
		each /= 2
	}
	return slices.DeleteFunc(out, func(t TopKeys) bool { return len(t.Keys) == 0 && t.Rest == 0 })
}

// reopened is how often the account of a key can go within a minute: it lingers.
const reopened = 6

// cut leaves at most each keys of every limit, and returns how many there are.
func cut(all []TopKeys, each int) (sum int) {
	for i := range all {
		t := &all[i]
		if len(t.Keys) > each {
			t.Rest = max(t.Rest, t.Keys[each].Attempted)
			t.Keys = t.Keys[:each]
		}
		sum += len(t.Keys)
	}
	return sum
}
