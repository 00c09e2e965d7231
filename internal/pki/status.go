package pki

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"
)

// Status describes a store's certificate and bundle. It contains no secret.
type Status struct {
	Identity  Identity  // zero without a certificate or without a URI SAN
	Serial    string    // hex
	NotBefore time.Time // zero without a certificate
	NotAfter  time.Time
	Issuer    Hash   // CA in the bundle that signed it; zero if none did
	Bundle    []Hash // trusted CAs
}

// Status returns the store's status. Nodes report theirs, and rotation of the CA depends on it.
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

// Trusts reports whether the bundle contains the CA.
func (st Status) Trusts(ca Hash) bool { return slices.Contains(st.Bundle, ca) }

// NotAfter returns when the certificate expires; zero without one.
func (s *Store) NotAfter() time.Time { return s.Status().NotAfter }

// Bundle returns the trust bundle as PEM; nil without one.
func (s *Store) Bundle() []byte { return EncodeCertificates(s.fresh().certs...) }

// Empty reports whether there is no certificate.
func (s *Store) Empty() bool { return s.fresh().leaf == nil }

// NeedsRenewal reports whether two thirds of the certificate's validity are over, or there is no
// certificate that the bundle trusts. It is always false for the operator's own certificates.
// Callers spread the renewals of many nodes themselves.
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

// soon is how long before the expiry of a CA Warnings mentions it.
const soon = 90 * 24 * time.Hour

// Warnings returns sentences about problems that do not prevent operation yet: files readable by
// others, an expired or untrusted certificate, CAs that expire soon.
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
