package leader

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// Checkpoint returns the levels that moved since the last call, at most max of
// them (the rest stays for the next call), and of accounts that have become
// full again, so that the log forgets them. wall is the wall clock at now.
func (l *Ledger) Checkpoint(now quota.Time, limit int) []quota.KeyLevel {
	var out []quota.KeyLevel
	l.written++
	l.wants = false
	for _, a := range l.accounts {
		if !a.moved(now, l.cfg.Lease) || a.tier.Kind == quota.Concurrency { // what is in flight dies with its nodes
			continue
		}
		if len(out) >= limit {
			break
		}
		a.advance(now)
		kl := a.keyLevel(now)
		if a.endures() {
			l.write(now, a, &kl)
		}
		out = append(out, kl)
		a.dirty, a.saved = false, true
	}
	slices.SortStableFunc(l.writing, func(x, y writing) int {
		return cmp.Or(cmp.Compare(x.seq, y.seq), x.a.key.Compare(y.a.key))
	})
	slices.SortFunc(out, func(x, y quota.KeyLevel) int { return x.Key.Compare(y.Key) })
	return out
}

// Rates returns the keys with the highest demand that match, best first. Keys that
// only the range's log remembers, since nobody has used them under this leader, come
// after those that are used, as far as there is room.
func (l *Ledger) Rates(now quota.Time, top int, match func(quota.LimitName) bool) []quota.KeyRate {
	var out []quota.KeyRate
	for _, a := range l.accounts {
		if !match(a.key.LimitName) {
			continue
		}
		a.advance(now)
		out = append(out, a.keyRate(now))
	}
	slices.SortFunc(out, CompareRates)
	return l.withSaved(now, out[:min(top, len(out))], top, match)
}

// withSaved fills the rates up to top with keys of the log, in the order of their names.
func (l *Ledger) withSaved(now quota.Time, out []quota.KeyRate, top int, match func(quota.LimitName) bool) []quota.KeyRate {
	if len(out) == top || len(l.saved) == 0 {
		return out
	}
	var keys []quota.Key
	for k, kl := range l.saved {
		if match(k.LimitName) && now < kl.FullAt {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, quota.Key.Compare)
	for _, k := range keys[:min(top-len(out), len(keys))] {
		if r, ok := l.Key(now, k); ok {
			out = append(out, r)
		}
	}
	return out
}

// CompareRates orders by demand, highest first, and then by key.
func CompareRates(x, y quota.KeyRate) int {
	return cmp.Or(cmp.Compare(y.Demand, x.Demand), x.Key.Compare(y.Key))
}

// Key returns what the ledger knows of one key; false if it has no limit.
// Looking at a key does not open it.
func (l *Ledger) Key(now quota.Time, k quota.Key) (quota.KeyRate, bool) {
	a := l.accounts[k]
	if a == nil {
		limit := l.limitOf(k)
		if limit == nil {
			return quota.KeyRate{}, false
		}
		kl, saved := l.line(now, k, limit)
		a = newAccount(k, limit, poolOf(now, limit, kl, saved))
	}
	a.advance(now)
	return a.keyRate(now), true
}

func (a *account) keyRate(now quota.Time) quota.KeyRate {
	k := quota.KeyRate{
		Key: a.key, Limit: a.limit,
		Attempted: a.attempted.Tokens(), Admitted: a.admitted.Tokens(),
		Refused:   (a.attempted - a.admitted).Tokens(),
		Remaining: max(0, a.level().Tokens()), OverAdmitted: a.over, Needless: a.needless,
	}
	tried, admit := a.asked.showing(now)
	k.Demand, k.Rate = tried/float64(quota.Token), admit/float64(quota.Token)
	for i := range a.holders {
		h := &a.holders[i]
		tried, admit := h.showing(now)
		k.Demand += tried / float64(quota.Token)
		k.Rate += admit / float64(quota.Token)
		if !h.closed {
			k.Members++
		}
	}
	return k
}
