package leader

import "github.com/quorate/quorate/internal/quota"

// refs numbers the buckets, from 1, so that reports need not name keys that the leader knows.
// Numbers are reused: there are at most as many as there were buckets at one time, so at most
// MaxKeys.
type refs struct {
	buckets bucketQueue // never popped; nil where a number is free
	free    []uint32
}

func (rs *refs) add(b *bucket) {
	if last := len(rs.free) - 1; last >= 0 {
		b.ref, rs.free = rs.free[last], rs.free[:last]
		*rs.buckets.at(int(b.ref - 1)) = b
		return
	}
	rs.buckets.push(b)
	b.ref = uint32(rs.buckets.len())
}

func (rs *refs) remove(b *bucket) {
	*rs.buckets.at(int(b.ref - 1)) = nil
	rs.free = append(rs.free, b.ref)
}

// find returns the bucket that an entry refers to by number, and the index of the member's
// allocation. It returns nil if the number or the member is unknown, or if the bucket is of another
// key. The epochs of all openings of keys by one process differ, so a number that was reassigned
// since does not match.
func (l *Ledger) find(r *quota.Report, e *quota.ReportEntry) (*bucket, int) {
	if e.Ref == 0 || int(e.Ref) > l.refs.buckets.len() {
		return nil, 0
	}
	b := *l.refs.buckets.at(int(e.Ref - 1))
	if b == nil || l.current(b) == nil {
		return nil, 0
	}
	for i := range b.allocations {
		if b.allocations[i].sameOpening(r, e) {
			return b, i
		}
	}
	return nil, 0
}

// sameOpening reports whether the entry is of the opening that the allocation is for.
func (al *allocation) sameOpening(r *quota.Report, e *quota.ReportEntry) bool {
	return al.epoch == e.Epoch && al.inc == r.Incarnation && al.node == r.From && !al.dead
}
