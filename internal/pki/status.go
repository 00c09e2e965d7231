package pki

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"
)

// Status is what a store shows and trusts: nothing in it is secret.
type Status struct {
	Identity  Identity  // zero without a certificate, or when it has no URI SAN
	Serial    string    // hex
	NotBefore time.Time // zero without a certificate
	NotAfter  time.Time
	Issuer    Hash   // of the bundle's CA that signed it; zero if none did
	Bundle    []Hash // the CAs that are trusted
}

// Status returns it. Each node tells its own, and the rotation of a CA goes on by that.
func (s *Store) Status() Status {
	m := s.fresh()
	var out Status
	for _, c := range m.certs {
		out.Bundle = append(out.Bundle, Fingerprint(c))
	}
	if m.leaf == nil {
		return out
	}
	out.Identity, out.Serial = m.id, fmt.Sprintf("%x", m.leaf.SerialNumber)
	out.NotBefore, out.NotAfter = m.leaf.NotBefore, m.leaf.NotAfter
	if m.issuer != nil {
		out.Issuer = Fingerprint(m.issuer)
	}
	return out
}

// Trusts says whether the bundle has the CA.
func (st Status) Trusts(ca Hash) bool { return slices.Contains(st.Bundle, ca) }

// NotAfter returns when the certificate expires, the zero time without one.
func (s *Store) NotAfter() time.Time { return s.Status().NotAfter }

// Bundle returns the trust bundle as PEM, nil if there is none.
func (s *Store) Bundle() []byte { return EncodeCertificates(s.fresh().certs...) }

// Empty says that there is no certificate.
func (s *Store) Empty() bool { return s.fresh().leaf == nil }

// NeedsRenewal says that two thirds of the certificate's life are over, or that
// there is no certificate, or none that the bundle trusts. The operator's own
// certificates are theirs to renew: never true. Callers spread the renewals of
// many nodes themselves.
func (s *Store) NeedsRenewal(now time.Time) bool {
	if s.files != nil {
		return false
	}
	m := s.current()
	if m.leaf == nil || m.issuer == nil {
		return true
	}
	life := m.leaf.NotAfter.Sub(m.leaf.NotBefore)
	return !now.Before(m.leaf.NotBefore.Add(life / 3 * 2))
}

// soon is how long before the end of a CA its operator is told.
const soon = 90 * 24 * time.Hour

// Warnings returns sentences about what works but should not stay: files that
// others can read, a certificate out of its time or that the bundle does not
// trust, CAs that end soon.
func (s *Store) Warnings() []string {
	m, now := s.fresh(), s.opts.Now()
	out := slices.Clone(m.notes)
	if m.leaf != nil {
		use := x509.ExtKeyUsageClientAuth
		if err := m.verify(m.given, use, now); err != nil {
			out = append(out, "this side's own certificate: "+err.Error())
		}
	}
	for _, c := range m.certs {
		if err := checkTime(c, now); err != nil {
			out = append(out, err.Error())
		} else if left := c.NotAfter.Sub(now); left < soon {
			out = append(out, fmt.Sprintf("the certificate of %s expires in %s: rotate the CA", describe(c), span(left)))
		}
	}
	return out
}
