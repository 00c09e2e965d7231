package main

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// firstCertificate says where credentials come from, to somebody who has none: the way must
// not need any.
const firstCertificate = `"quorate init" puts the first administrator's into DATA/admin of the machine on which it makes the cluster;
whoever has those makes others: quorate cert issue --name NAME --out DIR`

// noneAnswers says why no node could be reached, and what to try next.
func (t *targets) noneAnswers(addrs []string, last error) error {
	text, list := status.Convert(last).Message(), strings.Join(addrs, ", ")
	has := func(part string) bool { return strings.Contains(text, part) }
	secure := orEnv(t.tlsDir, "QUORATE_TLS_DIR")
	switch {
	case secure == "" && has("connection error") && (has("EOF") || has("reset")):
		return unreachableError{fmt.Errorf("the nodes at %s end every connection: %s\nIf they use TLS, name a directory of credentials with --tls-dir or QUORATE_TLS_DIR: %s", list, text, firstCertificate)}
	case secure != "" && has("than those trusted here"):
		return unreachableError{fmt.Errorf("the nodes at %s are not those that %s trusts: %s\nEither the addresses or the directory are another cluster's, or the cluster's authority was replaced: its ca.crt is what \"quorate ca status --trust-out FILE\" writes where it is trusted already", list, secure, text)}
	}
	if s := t.store.Load(); s != nil {
		if why := s.WhyRefused(text); why != "" {
			return &exitError{fmt.Errorf("at %s: %s", list, why), exitDenied}
		}
	}
	if status.Code(last) == codes.DeadlineExceeded {
		return unreachableError{fmt.Errorf("no answer from %s in time: %s\n\"quorate status\" says which nodes answer, and whether there are leaders", list, text)}
	}
	return unreachableError{fmt.Errorf("no node answers at %s: %s\nStart a cluster with \"quorate dev\", or say where one is with --addr, --base-port or "+addrVariable, list, text)}
}

// denied says what to do about a credential that is missing, or that may too little, and about
// a majority that is lost; it adds to what the node said.
func denied(st *status.Status, identity string) string {
	switch {
	case st.Code() == codes.Unauthenticated && strings.Contains(st.Message(), "carries no credential"):
		return "\nGive a directory that has client.crt and client.key with --tls-dir, or a bearer token with --token-file: " + firstCertificate
	case reasonOf(st) == "NO_LEADER":
		return "\nA majority of the nodes has to be there: \"quorate status\" says which ones are not; start those again, with their data. Checks are decided meanwhile"
	case st.Code() == codes.PermissionDenied && identity != "":
		return fmt.Sprintf("\nWhoever has access.admin gives a role to it: quorate roles bind %s ROLE (\"quorate roles show\" lists them)", identity)
	}
	return ""
}

// deniedIdentity is who a node says lacks a permission: `"client:shop" needs cluster.read everywhere`.
func deniedIdentity(message string) string {
	who, _, ok := strings.Cut(message, " needs ")
	if !ok || len(who) < 3 || who[0] != '"' || who[len(who)-1] != '"' {
		return ""
	}
	return show(who[1 : len(who)-1])
}
