package remote

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/cli/exit"
)

// firstCertificate says where credentials come from, to somebody who has none: the way must
// not need any.
const firstCertificate = `"quorate init" puts the first administrator's into DATA/admin of the machine on which it makes the cluster;
whoever has those makes others: quorate cert issue --name NAME --out DIR`

// NoneAnswers says why no node could be reached, and what to try next.
func (t *Targets) NoneAnswers(addrs []string, last error) error {
	text, list := status.Convert(last).Message(), strings.Join(addrs, ", ")
	has := func(part string) bool { return strings.Contains(text, part) }
	secure := OrEnv(t.TlsDir, "QUORATE_TLS_DIR")
	switch {
	case secure == "" && has("connection error") && (has("EOF") || has("reset")):
		return exit.Errorf(exit.Unreachable, "the nodes at %s end every connection: %s\nIf they use TLS, name a directory of credentials with --tls-dir or QUORATE_TLS_DIR: %s", list, text, firstCertificate)
	case secure != "" && has("than those trusted here"):
		return exit.Errorf(exit.Unreachable, "the nodes at %s are not those that %s trusts: %s\nEither the addresses or the directory are another cluster's, or the cluster's authority was replaced: its ca.crt is what \"quorate ca status --trust-out FILE\" writes where it is trusted already", list, secure, text)
	}
	if s := t.store.Load(); s != nil {
		if why := s.WhyRefused(text); why != "" {
			return exit.Errorf(exit.Denied, "at %s: %s", list, why)
		}
	}
	if status.Code(last) == codes.DeadlineExceeded {
		return exit.Errorf(exit.Unreachable, "no answer from %s in time: %s\n\"quorate status\" says which nodes answer, and whether there are leaders", list, text)
	}
	return exit.Errorf(exit.Unreachable, "no node answers at %s: %s\nStart a cluster with \"quorate dev\", or say where one is with --addr, --base-port or "+AddrVariable, list, text)
}
