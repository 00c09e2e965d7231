package aggregator

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestFloodOfKeys: a flood of keys of one limit neither takes the room of other limits' keys, nor passes without
// limit.
func TestFloodOfKeys(t *testing.T) {
	const most = 1600
	for _, compacted := range []bool{false, true} {
		r := newRig(t, Config{MaxKeys: most})
		r.neverCompact = !compacted
		other := quota.LimitName{Namespace: "m", Limit: "other"}
		r.limits(limit(softName, 20, quota.Soft), limit(hardName, 20, quota.Hard), limit(other, 20, quota.Hard))
		flooded, asked, passed := 0, 0, 0
		for round := range 30 {
			for range most { // as many new keys in each round as the table has room for
				flooded++
				if d := r.check(softName, strconv.Itoa(flooded), 1); r.Len() >= most-most/16 {
					asked++
					if d.Allowed {
						passed++
					}
				}
			}
			for _, n := range []quota.LimitName{hardName, other} { // new keys of the other limits
				key := "caller" + strconv.Itoa(round)
				r.check(n, key, 1)
				if b := r.bucketOf(n, key); b == nil {
					t.Fatalf("round %d: %v is not followed; the table has %d of %d keys", round, n, r.Len(), most)
				}
			}
			if n := r.Len(); n > most {
				t.Fatalf("%d keys; at most %d", n, most)
			}
			for range 3 {
				for _, rep := range r.Collect(r.now) {
					g := quota.Grant{Range: rep.Range, Term: rep.Term, From: "a", To: "a", At: r.now, Incarnation: 1}
					for _, e := range rep.Entries {
						g.Entries = append(g.Entries, quota.GrantEntry{Key: e.Key, Epoch: e.Epoch, Ack: rep.Seq, Level: 20 * tokens, Saved: e.Used + e.Overdrawn, Closed: e.Final, Lease: 3 * time.Second})
					}
					r.Apply(r.now, g)
				}
				r.now = r.now.Add(100 * time.Millisecond)
			}
			r.Sweep(r.now)
		}
		// The flood's keys share a bucket of 20 and 10/s for 9 s; a few more pass when room is made.
		if asked < 20*most || passed > 200 {
			t.Errorf("compacted %v: of %d new keys beyond the table %d passed", compacted, asked, passed)
		}
	}
}

// TestFloodOfManyLimits: a flood of keys of many limits leaves room in the table for other limits.
func TestFloodOfManyLimits(t *testing.T) {
	const most = 3200
	other := quota.LimitName{Namespace: "m", Limit: "other"}
	list := []quota.Limit{limit(other, 20, quota.Soft)}
	for i := range 100 {
		list = append(list, limit(quota.LimitName{Namespace: "n", Limit: "l" + strconv.Itoa(i)}, 20, quota.Soft))
	}
	for what, name := range map[string]func(i int) quota.LimitName{
		"of one namespace":                func(i int) quota.LimitName { return list[1+i%100].LimitName },
		"of one namespace, one above all": func(i int) quota.LimitName { return list[1+max(0, i-2*most)%100].LimitName },
		"inline": func(i int) quota.LimitName {
			return quota.LimitName{Namespace: "n" + strconv.Itoa(i%9), Limit: fmt.Sprintf("@inline.bucket.soft.30.60000000000.%d", 5+i%1000)}
		},
	} {
		r := newRig(t, Config{MaxKeys: most})
		r.limits(list...)
		for i := range 3 * most {
			r.check(name(i), strconv.Itoa(i), 1)
		}
		const want = most / 32 / 3
		for i := range want {
			if r.check(other, strconv.Itoa(i), 1); r.bucketOf(other, strconv.Itoa(i)) == nil {
				t.Errorf("limits %s: another limit has %d keys; want %d", what, i, want)
				break
			}
		}
	}
}

// bucketOf returns the bucket of a key, or nil.
func (r *rig) bucketOf(n quota.LimitName, key string) *bucket {
	s := r.table.find(n)
	return r.table.lookup(s, key)
}
