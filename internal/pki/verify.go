package pki

import (
	"crypto/x509"
	"errors"
	"slices"
	"time"
)

// trust is a parsed trust bundle. It is immutable.
type trust struct {
	certs []*x509.Certificate
	roots *x509.CertPool
}

func newTrust(certs []*x509.Certificate) trust {
	t := trust{certs: certs, roots: x509.NewCertPool()}
	for _, c := range certs {
		t.roots.AddCert(c)
	}
	return t
}

// verify checks that the certificate was signed by a CA of the bundle, is currently valid and may
// be used for use. It does not check the identity.
func (t trust) verify(sent []*x509.Certificate, use x509.ExtKeyUsage, now time.Time) error {
	if len(sent) == 0 {
		return refuse(NoCertificate, "the other side sent no certificate; one is needed here")
	}
	leaf := sent[0]
	if leaf.IsCA {
		return refuse(WrongUse, "the certificate is that of a %s, not of a node or client", describe(leaf))
	}
	between := x509.NewCertPool()
	for _, c := range sent[1:] {
		between.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: t.roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{use},
	})
	if err != nil {
		return t.explain(leaf, err, use, now)
	}
	return nil
}

// explain turns an error of the verifier into an Error.
func (t trust) explain(leaf *x509.Certificate, err error, use x509.ExtKeyUsage, now time.Time) error {
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &unknown):
		return t.untrusted(leaf, err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		if timeErr := checkTime(invalid.Cert, now); timeErr != nil {
			return timeErr
		}
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		end := "client"
		if use == x509.ExtKeyUsageServerAuth {
			end = "server"
		}
		return refuse(WrongUse, "the certificate of %s may not be used by the %s of a connection (extended key usage)", describe(leaf), end)
	case errors.As(err, &invalid) && invalid.Reason == x509.CANotAuthorizedForThisName:
		return &Error{OtherCluster, "the certificate of " + describe(leaf) + " was signed by a CA that may not sign for it: " + err.Error(), err}
	}
	return &Error{Unusable, "the certificate of " + describe(leaf) + " is not usable: " + err.Error(), err}
}

func (t trust) untrusted(leaf *x509.Certificate, err error) error {
	if isProbe(leaf) {
		return &Error{Joining, "the other side is a node that is still joining: it has no certificate of this cluster yet", err}
	}
	e := refuse(OtherCA, "the certificate of %s was signed by another CA (%q) than those trusted here: ", describe(leaf), clip(leaf.Issuer.String()))
	for i, c := range t.certs {
		if i > 0 {
			e.Text += "; "
		}
		if i == 3 {
			e.Text += "..."
			break
		}
		e.Text += describe(c)
	}
	if len(t.certs) == 0 {
		e.Text += "none yet"
	}
	if id, err := IdentityOf(leaf, ""); err == nil && id.Kind == Client && t.namesake(leaf) {
		e.Text += ". Its CA has the same name: either it is no longer trusted, because another has replaced it (quorate ca rotate), or it is that of another cluster. " + newCertificate(id)
	}
	e.Err = err
	return e
}

// namesake reports whether a CA in the bundle has the same name as the issuer.
func (t trust) namesake(leaf *x509.Certificate) bool {
	return slices.ContainsFunc(t.certs, func(c *x509.Certificate) bool { return c.Subject.CommonName == leaf.Issuer.CommonName })
}

// issuer returns the CA in the bundle that signed cert, or nil.
func (t trust) issuer(cert *x509.Certificate) *x509.Certificate {
	for _, c := range t.certs {
		if cert.CheckSignatureFrom(c) == nil {
			return c
		}
	}
	return nil
}

// complete appends to a chain the CA certificate that it ends in, so that a peer who knows only its
// hash can verify it.
func (t trust) complete(chain []*x509.Certificate) []*x509.Certificate {
	last := chain[len(chain)-1]
	if last.CheckSignatureFrom(last) == nil {
		return chain
	}
	if ca := t.issuer(last); ca != nil {
		return append(slices.Clip(chain), ca)
	}
	return chain
}
