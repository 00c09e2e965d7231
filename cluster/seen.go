package cluster

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/pki"
)

// addSeen adds to an answer about the authority whose certificates this node has seen, and
// members that are dead: those did not renew theirs. Each node knows its own callers alone.
func (n *Node) addSeen(r *quoratev1.RotateAuthorityResponse) {
	if n.cfg.Certificates == nil {
		return
	}
	for _, s := range n.cfg.Certificates.Seen() {
		r.Seen = append(r.Seen, &quoratev1.SeenCertificate{
			Identity: callerName(s.Identity), Authority: s.Issuer.String(), At: timestamppb.New(s.At), Node: string(n.cfg.Self),
		})
	}
	t := n.meta.Members.Load()
	for _, id := range t.IDs() {
		if m := t.Member(id); m.Dead && m.SignedBy != "" {
			r.Seen = append(r.Seen, &quoratev1.SeenCertificate{Identity: "node:" + string(id), Authority: m.SignedBy})
		}
	}
}

// callerName is how roles are bound to an identity.
func callerName(id pki.Identity) string {
	if id.Foreign() {
		return id.Name
	}
	return id.Kind.String() + ":" + id.Name
}
