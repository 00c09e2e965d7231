package quota

// Unacked holds the grants of tokens whose receiver is not known to have applied them. A nil Unacked holds none.
type Unacked struct {
	Sum    Units // their tokens
	Grants []UnackedGrant
}

// UnackedGrant is one of them.
type UnackedGrant struct {
	Seq    Seq
	Tokens Units
}

// MaxUnacked bounds the unacknowledged grants of tokens of one receiver and key. At the bound, it gets no tokens until
// it acknowledges.
const MaxUnacked = 8

// Tokens returns the sum of the grants.
func (u *Unacked) Tokens() Units {
	if u == nil {
		return 0
	}
	return u.Sum
}

// Full reports whether there are MaxUnacked.
func (u *Unacked) Full() bool { return u != nil && len(u.Grants) >= MaxUnacked }

// Add adds a grant.
func (u *Unacked) Add(seq Seq, tokens Units) {
	u.Grants, u.Sum = append(u.Grants, UnackedGrant{seq, tokens}), u.Sum.Plus(tokens)
}

// Acknowledge drops the grants up to applied: the receiver has applied them, or never will.
func (u *Unacked) Acknowledge(applied Seq) {
	if u == nil {
		return
	}
	kept, sum := u.Grants[:0], Units(0)
	for _, g := range u.Grants {
		if g.Seq > applied {
			kept, sum = append(kept, g), sum.Plus(g.Tokens)
		}
	}
	u.Grants, u.Sum = kept, sum
}

// Clear drops all grants.
func (u *Unacked) Clear() {
	if u != nil {
		u.Grants, u.Sum = u.Grants[:0], 0
	}
}
