package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/sockerr"
)

// Why is the reason why a connection was rejected, a label of metrics. Words are added, never
// changed.
type Why string

// The reasons.
const (
	NoCertificate Why = "no_certificate" // none was sent, but one is required
	Expired       Why = "expired"
	NotYetValid   Why = "not_yet_valid"
	OtherCA       Why = "other_ca"      // signed by an untrusted CA
	WrongUse      Why = "wrong_use"     // not valid for this end of a connection
	NoIdentity    Why = "no_identity"   // names nobody, or more than one identity
	Joining       Why = "joining"       // of a node that has not received its certificate yet
	WrongKind     Why = "wrong_kind"    // a client's, but a node's is required
	OtherCluster  Why = "other_cluster" // of a node of another cluster
	WrongNode     Why = "wrong_node"    // not that of the node that was dialed, or that it claims to be
	Unusable      Why = "unusable"      // invalid for another reason
	OldTLS        Why = "old_tls"       // the other side has at most TLS 1.2
	NotTLS        Why = "not_tls"       // the input is not TLS
	Refused       Why = "refused"       // the other side rejected this side's certificate
	HungUp        Why = "hung_up"       // the other side closed the connection during the handshake
)

// Error explains in one sentence why a connection was rejected.
type Error struct {
	Why  Why
	Text string
	Err  error // cause; may be nil
}

// Error returns the sentence.
func (e *Error) Error() string { return e.Text }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Joining reports whether the other side is a node that has not received its certificate yet.
func (e *Error) Joining() bool { return e.Why == Joining }

func refuse(why Why, format string, args ...any) *Error {
	return &Error{Why: why, Text: fmt.Sprintf(format, args...)}
}

// describe returns a description of a certificate's owner that is safe to log.
func describe(cert *x509.Certificate) string {
	if cert.IsCA {
		return fmt.Sprintf("CA %q, SHA-256 %s", clip(cert.Subject.String()), Fingerprint(cert).String()[:16])
	}
	if id, err := IdentityOf(cert, ""); err == nil {
		return id.String()
	}
	if len(cert.URIs) > 0 {
		return fmt.Sprintf("%q", clip(cert.URIs[0].String()))
	}
	if len(cert.DNSNames) > 0 {
		return fmt.Sprintf("%q", clip(cert.DNSNames[0]))
	}
	return fmt.Sprintf("%q", clip(cert.Subject.String()))
}

// checkTime returns an error if the certificate has expired or is not valid yet.
func checkTime(cert *x509.Certificate, now time.Time) error {
	const form = "2006-01-02 15:04:05 MST"
	if now.After(cert.NotAfter) {
		return refuse(Expired, "the certificate of %s expired %s ago, at %s", describe(cert), span(now.Sub(cert.NotAfter)), cert.NotAfter.UTC().Format(form))
	}
	if now.Before(cert.NotBefore) {
		return refuse(NotYetValid, "the certificate of %s is valid only in %s, from %s: are the clocks right?",
			describe(cert), span(cert.NotBefore.Sub(now)), cert.NotBefore.UTC().Format(form))
	}
	return nil
}

// span formats a duration in its largest unit: 3 days, 1 hour.
func span(d time.Duration) string {
	for _, u := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		if n := d / u.of; n == 1 {
			return "1 " + u.name
		} else if n > 1 {
			return fmt.Sprintf("%d %ss", n, u.name)
		}
	}
	return fmt.Sprintf("%d seconds", (d+time.Second-1)/time.Second)
}

// Explain converts an error of a TLS handshake, or of the first read after it, into an [Error] if
// it recognizes the case, else it returns err. With TLS 1.3 a client learns only from its first
// read that it was rejected.
func Explain(err error) error {
	var known *Error
	var record tls.RecordHeaderError
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.As(err, &record):
		return &Error{NotTLS, "the input is not TLS: does the other side not use it, or is this another service's port?", err}
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || sockerr.Reset(err) || errors.Is(err, net.ErrClosed):
		return &Error{HungUp, "the other side closed the connection during the handshake; its log may say why", err}
	}
	if e := explainText(err); e != nil {
		return e
	}
	return err
}

// explainText recognizes the errors that crypto/tls distinguishes by their text only.
func explainText(err error) *Error {
	text := err.Error()
	has := func(s string) bool { return strings.Contains(text, s) }
	switch remote := has("remote error: tls: "); {
	case remote && has("certificate required"):
		return &Error{NoCertificate, "the other side needs a certificate, and this side sent none", err}
	case remote && has("protocol version"):
		return &Error{OldTLS, "the other side has no common version of TLS with this one; TLS 1.3 is needed", err}
	case remote && has("expired certificate"):
		return &Error{Refused, "the other side says that this side's certificate has expired: are the clocks right?", err}
	case remote && (has("certificate") || has("access denied")):
		return &Error{Refused, "the other side refused this side's certificate; its log says why", err}
	case has("didn't provide a certificate"):
		return &Error{NoCertificate, "the other side sent no certificate; one is needed here", err}
	case has("offered only unsupported versions"), has("selected unsupported protocol version"):
		return &Error{OldTLS, "the other side has no TLS 1.3; it is needed", err}
	}
	return nil
}

// WhyRefused returns a sentence that explains why nodes may have refused this side's certificate
// and what to do, if text is crypto/tls's error for such a refusal; else "". The error has no
// reason, so WhyRefused compares the CA of the certificate with that of the node that was reached
// last.
func (s *Store) WhyRefused(text string) string {
	m := s.fresh()
	if m.leaf == nil || !strings.Contains(text, "remote error: tls: ") || !strings.Contains(text, "certificate") {
		return ""
	}
	out := fmt.Sprintf("the nodes refuse the certificate of %s: ", describe(m.leaf))
	served := s.served.Load()
	switch err := checkTime(m.leaf, s.opts.Now()); {
	case err != nil:
		out = "the nodes refuse this side's certificate: " + err.Error()
	case served != nil && !bytes.Equal(m.given[len(m.given)-1].AuthorityKeyId, served.SubjectKeyId):
		out += fmt.Sprintf("it was issued by an authority that is no longer trusted, or never was (%q); the nodes' own is now %s", clip(m.leaf.Issuer.String()), describe(served))
	default:
		out += "their logs say why"
	}
	return out + ". " + newCertificate(m.id)
}

// newCertificate says how to get a new certificate. Those of the operator's own CA come from
// elsewhere.
func newCertificate(id Identity) string {
	if id.Kind != Client || id.Foreign() {
		return "Get a new one from the administrator of certificates"
	}
	return fmt.Sprintf("Get a new one by \"quorate cert issue --name %s --out DIR --replace\", which an administrator may call", id.Name)
}
