package pki

import (
	"bytes"
	"fmt"
	"strings"
)

// WhyRefused says in a sentence why nodes may have refused this side's certificate, and what
// to do, if text is what crypto/tls says of such a refusal; else it is "". A refusal comes
// without a reason: this side compares the CA of its certificate with that of the node that
// it last reached.
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

// newCertificate says how a client gets one. Certificates of the operator's own CA come from
// elsewhere, and name nobody in the way of the cluster's.
func newCertificate(id Identity) string {
	if id.Kind != Client || id.Foreign() {
		return "Get a new one from whoever makes certificates here"
	}
	return fmt.Sprintf("Get a new one by \"quorate cert issue --name %s --out DIR --replace\", which an administrator may call", id.Name)
}
