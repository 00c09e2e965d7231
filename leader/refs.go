package leader

import "github.com/quorate/quorate/internal/quota"

// refs numbers the accounts, so that reports need not name keys that the leader knows.
// Numbers are used again: there are at most as many as there were accounts at one
// time, and so at most MaxKeys. From 1.
type refs struct {
	accounts []*account
	free     []uint32
}

func (rs *refs) add(a *account) {
	if last := len(rs.free) - 1; last >= 0 {
		a.ref, rs.free = rs.free[last], rs.free[:last]
		rs.accounts[a.ref-1] = a
		return
	}
	rs.accounts = append(rs.accounts, a)
	a.ref = uint32(len(rs.accounts))
}

func (rs *refs) remove(a *account) {
	rs.accounts[a.ref-1] = nil
	rs.free = append(rs.free, a.ref)
}

// find returns the account that an entry means by its number, and the place of the
// member in it. It returns nil if the number or the member is unknown, or if the
// account is not of the key that the entry is about. No two openings of keys of one
// process have the same epoch, so a number that was assigned again since does not
// match.
func (l *Ledger) find(r *quota.Report, e *quota.ReportEntry) (*account, int) {
	if e.Ref == 0 || int(e.Ref) > len(l.refs.accounts) {
		return nil, 0
	}
	a := l.refs.accounts[e.Ref-1]
	if a == nil || l.current(a) == nil {
		return nil, 0
	}
	for i := range a.holders {
		if a.holders[i].speaks(r, e) {
			return a, i
		}
	}
	return nil, 0
}

// speaks reports whether the entry is of the opening that the record is about.
func (h *holder) speaks(r *quota.Report, e *quota.ReportEntry) bool {
	return h.epoch == e.Epoch && h.inc == r.Incarnation && h.node == r.From && !h.dead
}
