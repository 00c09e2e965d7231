package pki

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// Phase is how far the rotation of a CA has come. The numbers are stored: they
// are added to, never changed.
type Phase uint8

// The phases, in their order. After Renewing comes Steady again.
const (
	Steady   Phase = iota // one CA, which is trusted and signs
	Trusting              // all nodes learn to trust the next one too; the current one signs
	Renewing              // both are trusted, and the next one signs; all nodes get new certificates
)

// String returns the word for status and logs.
func (p Phase) String() string {
	switch p {
	case Steady:
		return "steady"
	case Trusting:
		return "trusting"
	case Renewing:
		return "renewing"
	}
	return "unknown"
}

// Authority is a cluster's CA as the cluster keeps it, and the state machine of
// its rotation. It is a plain value: no clock, no randomness; all fields may be
// stored as they are.
//
// No handshake fails on the way, because nobody shows a certificate of the next
// CA before everybody trusts it, and nobody stops trusting the current one while
// anybody shows a certificate of it.
type Authority struct {
	Phase   Phase
	Current Pair
	Next    Pair // empty while Steady
}

// Bundle returns the certificates that every node is to trust, PEM.
func (a Authority) Bundle() []byte {
	return append(bytes.Clone(a.Current.CertPEM), a.Next.CertPEM...)
}

// Signer returns the CA that signs at present.
func (a Authority) Signer(now time.Time) (*CA, error) {
	p := a.Current
	if a.Phase == Renewing {
		p = a.Next
	}
	if len(p.CertPEM) == 0 {
		return nil, errNoCA
	}
	return ParseCA(p.CertPEM, p.KeyPEM, now)
}

// Hashes returns the SHA-256 of the current CA's certificate and the next one's;
// the latter is zero while Steady. Nodes tell theirs in [Status].
func (a Authority) Hashes() (current, next Hash, err error) {
	for _, one := range []struct {
		pem []byte
		to  *Hash
	}{{a.Current.CertPEM, &current}, {a.Next.CertPEM, &next}} {
		if len(one.pem) == 0 {
			continue
		}
		certs, err := ParseBundle(one.pem)
		if err != nil {
			return Hash{}, Hash{}, fmt.Errorf("CA: %w", err)
		}
		*one.to = Fingerprint(certs[0])
	}
	return current, next, nil
}

// Rotate begins a rotation to next.
func (a Authority) Rotate(next Pair) (Authority, error) {
	switch {
	case a.Phase != Steady:
		return a, fmt.Errorf("CA: a rotation is under way (%s); it must end, or be aborted, first", a.Phase)
	case len(next.CertPEM) == 0:
		return a, errors.New("CA: the next one is empty")
	case bytes.Equal(next.CertPEM, a.Current.CertPEM):
		return a, errors.New("CA: the next one is the current one; must be a new one")
	}
	return Authority{Phase: Trusting, Current: a.Current, Next: next}, nil
}

// Advance takes the next step if all nodes are ready for it, and says whether it
// did. Both questions are about every member, the unreachable ones too: who
// misses a step can only join anew.
//
//   - allTrustNext: the [Status] of every node trusts the next CA. From Trusting
//     to Renewing.
//   - allRenewed: every node's certificate, and every client's that is to go on
//     working, was issued by the next CA. From Renewing to Steady: the old one is
//     trusted no more and its key is gone.
func (a Authority) Advance(allTrustNext, allRenewed bool) (Authority, bool) {
	switch {
	case a.Phase == Trusting && allTrustNext:
		a.Phase = Renewing
		return a, true
	case a.Phase == Renewing && allTrustNext && allRenewed:
		return Authority{Current: a.Next}, true
	}
	return a, false
}

// Abort gives a rotation up. Only while Trusting: later there are certificates
// of the next CA.
func (a Authority) Abort() (Authority, error) {
	if a.Phase != Trusting {
		return a, fmt.Errorf("CA: the rotation is %s; only while %s can it be aborted", a.Phase, Trusting)
	}
	return Authority{Current: a.Current}, nil
}
