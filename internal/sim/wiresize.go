package sim

import (
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// What reports and grants take on the wire is counted by packing them, as nodes do, each
// in a message of its own. The frame around a message, and TLS, are not counted.

// packed is memory for messages that are only counted.
type packed []byte

func (p *packed) report(r *quota.Report) int64 {
	*p = peerproto.PackReports((*p)[:0], []*quota.Report{r})
	return int64(len(*p))
}

func (p *packed) grant(g *quota.Grant) int64 {
	*p = peerproto.PackGrants((*p)[:0], peerproto.PackedForm, []*quota.Grant{g})
	return int64(len(*p))
}
