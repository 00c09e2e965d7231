package remote

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/pki"
)

// denied returns advice to add to a node's refusal: about a credential that is missing or lacks a
// permission, and about a lost majority.
func denied(st *status.Status, identity string) string {
	switch {
	case st.Code() == codes.Unauthenticated && strings.Contains(st.Message(), "carries no credential"):
		return "\nGive a directory that has client.crt and client.key with --tls-dir, or a bearer token with --token-file: " + firstCertificate
	case reasonOf(st) == "NO_LEADER":
		return "\nThis needs a majority of the nodes: \"quorate status\" shows the missing ones; start them again, with their data. Checks are still decided"
	case st.Code() == codes.PermissionDenied && identity != "":
		return fmt.Sprintf("\nA caller with access.admin can give it a role: quorate roles bind %s ROLE (\"quorate roles show\" lists them)", identity)
	}
	return ""
}

// deniedIdentity returns the identity in a refusal such as `"client:shop" needs cluster.read everywhere`.
func deniedIdentity(message string) string {
	who, _, ok := strings.Cut(message, " needs ")
	if !ok || len(who) < 3 || who[0] != '"' || who[len(who)-1] != '"' {
		return ""
	}
	return phrase.Show(who[1 : len(who)-1])
}

// Refusal turns the answer of a node into an error of our own, without gRPC's wrapping.
func Refusal(err error) error {
	if wrong := WrongPort(err); wrong != "" {
		return exit.Errorf(exit.Unreachable, "the address is that of %s: %s", wrong, wantsGRPC)
	}
	if exit.HasCode(err) {
		return err // of this program, not of a node
	}
	st := status.Convert(err)
	code := exit.Fault
	switch st.Code() {
	case codes.InvalidArgument, codes.OutOfRange, codes.FailedPrecondition:
		code = exit.Usage
		if reasonOf(st) == "NOT_NOW" {
			code = exit.No
		}
	case codes.Aborted, codes.AlreadyExists:
		code = exit.Conflict
		if reasonOf(st) == "ACCOUNTS_HELD" {
			code = exit.Unreachable
		}
	case codes.ResourceExhausted:
		if reasonOf(st) == "OVERLOADED" {
			code = exit.Unreachable
		}
	case codes.PermissionDenied, codes.Unauthenticated:
		code = exit.Denied
	case codes.Unavailable, codes.DeadlineExceeded:
		code = exit.Unreachable
	case codes.NotFound:
		code = exit.NotFound
	}
	return exit.With(code, &refusal{text: Explain(st) + denied(st, deniedIdentity(st.Message())), reason: reasonOf(st)})
}

// refusal is an answer of a node that is an error.
type refusal struct{ text, reason string }

func (r *refusal) Error() string { return r.text }

// Reason returns the machine-readable reason of an error from Refusal, or an empty string.
func Reason(err error) string {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.reason
	}
	return ""
}

// reasonOf returns the machine-readable reason that a node gave.
func reasonOf(st *status.Status) string {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.Reason
		}
	}
	return ""
}

// Explain returns the problem that a node reported.
func Explain(st *status.Status) string {
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.BadRequest:
			if len(d.FieldViolations) == 0 {
				continue
			}
			// The text of a file needs no field: its faults have their own places.
			if field := d.FieldViolations[0].GetField(); field == "yaml" || strings.HasSuffix(field, ".yaml") {
				return d.FieldViolations[0].GetDescription()
			}
		case *errdetails.ErrorInfo:
			if d.Reason == "VERSION_CONFLICT" {
				return conflict(d.Metadata)
			}
		}
	}
	return strings.TrimPrefix(st.Message(), "version: limits: ")
}

func conflict(meta map[string]string) string {
	by := ""
	if meta["by"] != "" {
		by = ", made by " + phrase.Show(meta["by"]) + ","
	}
	return fmt.Sprintf("conflict: version %s was expected, but version %s%s is active; see what it changed with \"quorate limits diff %s %s\", then repeat this",
		meta["expected"], meta["current"], by, meta["expected"], meta["current"])
}

// WithH2 makes a TLS configuration offer HTTP/2, which gRPC needs.
func WithH2(c *tls.Config) *tls.Config {
	c.NextProtos = []string{"h2"}
	return c
}

// firstCertificate explains how to get the first credentials. The steps must not need any.
const firstCertificate = `"quorate init" puts the first administrator's into DATA/admin of the machine on which it makes the cluster;
with those you can make others: quorate cert issue --name NAME --out DIR`

// wantsGRPC says which port --addr means.
const wantsGRPC = "--addr needs a gRPC port, 7412 by default"

// NoneAnswers explains why no node could be reached, and what to try next.
func (t *Targets) NoneAnswers(addrs []string, last error) error {
	text, list := status.Convert(last).Message(), strings.Join(addrs, ", ")
	has := func(part string) bool { return strings.Contains(text, part) }
	cause := pki.ConnectionCause(text)
	secure, from := t.TLSDirectory()
	switch wrong := WrongPort(last); {
	case wrong == noTLS:
		return exit.Errorf(exit.Unreachable, "%s is %s, but %s asks for it (%s): %s; or leave the directory out", list, wrong, from, secure, wantsGRPC)
	case wrong != "":
		return exit.Errorf(exit.Unreachable, "%s is %s: %s", list, wrong, wantsGRPC)
	case secure == "" && has("connection error") && (has("EOF") || has("reset")):
		return exit.Errorf(exit.Unreachable, "the nodes at %s close every connection: %s\nIf this is their port for peers or for HTTP, use the gRPC port, 7412 by default. If they use TLS, name a directory of credentials with --tls-dir or QUORATE_TLS_DIR: %s", list, cause, firstCertificate)
	case secure != "" && has("than those trusted here"):
		return exit.Errorf(exit.Unreachable, "the nodes at %s are not those that %s trusts: %s\nThe addresses or the directory belong to another cluster, or the cluster's authority was replaced: then get its ca.crt with \"quorate ca status --trust-out FILE\" on a machine that trusts it", list, secure, cause)
	}
	if s := t.store.Load(); s != nil {
		if why := s.WhyRefused(text); why != "" {
			return exit.Errorf(exit.Denied, "at %s: %s", list, why)
		}
	}
	if status.Code(last) == codes.DeadlineExceeded {
		return exit.Errorf(exit.Unreachable, "no answer from %s in time: %s\n\"quorate status\" says which nodes answer, and whether there are leaders", list, cause)
	}
	return exit.Errorf(exit.Unreachable, "no node answers at %s: %s\nStart a cluster with \"quorate dev\", or give its address with --addr, --base-port, --context or "+AddrVariable, list, cause)
}
