package sim

import (
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// packed is a buffer for messages that are encoded only to count their bytes. Reports and grants
// are encoded as nodes do, each in its own message, without frames and TLS.
type packed []byte

func (p *packed) report(r *quota.Report) int64 {
	*p = peerproto.PackReports((*p)[:0], []*quota.Report{r})
	return int64(len(*p))
}

func (p *packed) grant(g *quota.Grant) int64 {
	*p = peerproto.PackGrants((*p)[:0], []*quota.Grant{g})
	return int64(len(*p))
}
