package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"
)

// Why is why a connection was refused: a label for metrics. The words are added
// to, never changed.
type Why string

// The reasons.
const (
	NoCertificate Why = "no_certificate" // none was sent where one is needed
	Expired       Why = "expired"
	NotYetValid   Why = "not_yet_valid"
	OtherCA       Why = "other_ca"      // signed by a CA that is not trusted here
	WrongUse      Why = "wrong_use"     // not made for this end of a connection
	NoIdentity    Why = "no_identity"   // names nobody, or more than one
	WrongKind     Why = "wrong_kind"    // a client's where a node's is needed
	OtherCluster  Why = "other_cluster" // of a node of another cluster
	WrongNode     Why = "wrong_node"    // of another node than the one that was dialed or that speaks
	Unusable      Why = "unusable"      // broken in another way
	OldTLS        Why = "old_tls"       // the other side has nothing newer than TLS 1.2
	NotTLS        Why = "not_tls"       // what came is no TLS
	Refused       Why = "refused"       // the other side did not take this side's certificate
	HungUp        Why = "hung_up"       // the other side went away in the middle of it
)

// Error is why a connection was refused, in one sentence for the log.
type Error struct {
	Why  Why
	Text string
	Err  error // what it was made from; may be nil
}

// Error returns the sentence.
func (e *Error) Error() string { return e.Text }

// Unwrap returns what the sentence was made from.
func (e *Error) Unwrap() error { return e.Err }

func refuse(why Why, format string, args ...any) *Error {
	return &Error{Why: why, Text: fmt.Sprintf(format, args...)}
}

// describe says whose a certificate is, in words that are safe to log.
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

// checkTime says whether, and by how much, a certificate is out of its time.
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

// span says a duration as people do: 3 days, 1 hour.
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

// Explain turns what a TLS handshake, or the first read after it, failed with
// into an [Error] where it knows the case, and returns err as it is otherwise.
// Since TLS 1.3 a client hears with its first read that it was refused.
func Explain(err error) error {
	var known *Error
	var record tls.RecordHeaderError
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.As(err, &record):
		return &Error{NotTLS, "what came is not TLS: does the other side speak without it, or is this another service's port?", err}
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed):
		return &Error{HungUp, "the other side closed the connection during the handshake; its log may say why", err}
	}
	if e := explainText(err); e != nil {
		return e
	}
	return err
}

// explainText knows those that crypto/tls tells by words alone.
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
