package leader

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// A member that has not used a key counts on a full bucket until the leader answers. So the leader
// announces a key that is used up to all members, and a member that has the key closed takes the
// level over. If the level rises by more than the yield of time, by a reset or a refund, the leader
// announces it again. An announcement that is lost is not repeated: the member learns the level from
// the answer to its first report.

// announceState records the announcement of a used-up key.
type announceState struct {
	announced quota.Time // until then members count on no more than the announced level and its yield
}

const (
	// announceFor is the least time until a used-up key has a token again for which it is announced.
	announceFor = 2 * time.Second
	// maxAnnouncing bounds the keys that are announced at once, twice in a sync interval. Further keys
	// that are used up are announced with their next report; keys whose level rose wait, since nobody
	// may report them again.
	maxAnnouncing = 32
	// maxAnnounced bounds the keys that a member learns which reports for the first time: the last
	// ones that were announced, and as many that were used up when this leader began.
	maxAnnounced = 256
)

// timeToToken returns the time until a bucket of this level, below a token, has a token without requests.
func (b *bucket) timeToToken(now quota.Time, level quota.Units) time.Duration {
	if level >= quota.Token {
		return 0
	}
	wait := time.Duration(math.MaxInt64)
	if _, end := b.pool.Bounds(); end > 0 {
		wait = end.Sub(now)
	}
	if gain := b.gainPerSecond(); gain > 0 {
		wait = min(wait, time.Duration(quota.MulDivCeil(int64(quota.Token-level), int64(time.Second), int64(gain))))
	}
	return wait
}

// announce announces the key if it is used up for a while, or no longer.
func (l *Ledger) announce(now quota.Time, b *bucket) {
	if !announces(b) {
		return
	}
	level := b.pool.Level() // at least: members may hold tokens
	if b.announced > now {
		if level < quota.Token {
			return
		}
		b.announced = 0
	} else {
		if l.announcing.len() >= maxAnnouncing || b.timeToToken(now, level) < announceFor {
			return
		}
		b.advance(now)
		level = b.level()
		wait := b.timeToToken(now, level)
		if wait < announceFor || l.aside(now, b) > 0 {
			return
		}
		b.announced = now.Add(wait)
		if l.announced.push(b); l.announced.len() > maxAnnounced {
			l.announced.pop()
		}
	}
	l.announcing.push(b)
}

// pushAnnounced announces the noted keys to all members, if the last announcement was half a sync
// interval ago.
func (l *Ledger) pushAnnounced(now quota.Time) {
	if l.announcing.len() == 0 || now.Sub(l.announcedAt) < l.cfg.Sync/2 {
		return
	}
	var entries []quota.GrantEntry
	for range min(l.announcing.len(), maxAnnouncing) {
		b := l.announcing.pop()
		l.readBucket(now, b, func() { entries = append(entries, l.announcement(b)) })
	}
	for _, id := range slices.Sorted(maps.Keys(l.members)) {
		if m := l.members[id]; !m.gone {
			l.pushTo(now, id, slices.Clone(entries))
		}
	}
	l.announcedAt = now
}

// introduce announces the keys that are used up to a member that reports for the first time.
func (l *Ledger) introduce(now quota.Time, id quota.NodeID) {
	var entries []quota.GrantEntry
	for i := range l.announced.len() {
		b := *l.announced.at(i)
		l.readBucket(now, b, func() {
			if b.announced > now {
				entries = append(entries, l.announcement(b))
			}
		})
	}
	for _, k := range l.usedUp {
		if b := l.unopened(now, k); b != nil && b.limit.Ceiling == quota.Soft && announces(b) && b.timeToToken(now, b.level()) >= announceFor {
			entries = append(entries, l.announcement(b))
		}
	}
	l.pushTo(now, id, entries)
}

// announces reports whether keys of the bucket's limit are announced.
func announces(b *bucket) bool {
	return !b.limit.AsksLeader() && b.tier.Kind != quota.Concurrency
}

// unopened returns the bucket that a key of the log would have; nil if it is open, or not in the log.
func (l *Ledger) unopened(now quota.Time, k quota.Key) *bucket {
	limit := l.limitOf(k)
	if limit == nil || l.buckets.find(k) != nil {
		return nil
	}
	kl, saved := l.savedLevelOf(now, k, limit)
	if !saved {
		return nil
	}
	b := newBucket(now, k.Key, newRule(k.LimitName, limit, l.cfg.Sync), kl, saved)
	b.advance(now)
	return b
}

// announcement returns the entry that announces the level of a key.
func (l *Ledger) announcement(b *bucket) quota.GrantEntry {
	e := quota.GrantEntry{Key: b.key(), Announced: true, Level: b.level(), Again: l.cfg.Sync}
	b.addWindow(&e)
	return e
}

// pushTo sends announcements to a member.
func (l *Ledger) pushTo(now quota.Time, id quota.NodeID, entries []quota.GrantEntry) {
	if len(entries) > 0 && len(l.pushed) < maxPushed {
		l.pushed = append(l.pushed, quota.Grant{Range: l.id, Term: l.term, From: l.self, To: id, At: now, Entries: entries})
	}
}
