package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
)

// Certificates are this node's certificate and what it trusts, where the links
// and servers look them up. Nil when the cluster has no authority of its own: the
// operator then renews certificates, or there are none.
type Certificates interface {
	// NeedsRenewal says whether the certificate is to be replaced soon.
	NeedsRenewal(now time.Time) bool
	// Signer is the fingerprint of the authority that signed the certificate.
	Signer() string
	// Trusts are the fingerprints of the authorities that are trusted.
	Trusts() []string
	// Request makes a key and asks for its certificate, in DER. The key is used
	// once the certificate is installed.
	Request() (csr []byte, err error)
	// Install begins to use the certificate of the last request, in PEM.
	Install(certificate []byte) error
	// SetTrust replaces what is trusted, in PEM.
	SetTrust(bundle []byte) error
	// Seen are the certificates of callers that were good here, at most pki.MaxSeen.
	Seen() []pki.Seen
}

// callOutLimit is for one attempt to tell a new address.
const callOutLimit = 500 * time.Millisecond

// certificateTTL is how long a node's certificate is valid; it is renewed after
// two thirds of that.
const certificateTTL = 30 * 24 * time.Hour

// trustOf are the authorities to trust, in PEM.
func trustOf(a *raftlogv1.StoredAuthority) []byte {
	return bytes.Join([][]byte{a.GetCertificate(), a.GetNextCertificate(), a.GetLastCertificate()}, nil)
}

// takeTrust has this node trust what the membership says.
func (n *Node) takeTrust(t *membership.Table) error {
	if n.cfg.Certificates == nil || t.Authority() == nil {
		return nil
	}
	return n.cfg.Certificates.SetTrust(trustOf(t.Authority()))
}

// sign signs the certificate of a node, or of a client.
func (n *Node) sign(t *membership.Table, csr []byte, id pki.Identity, hosts []string, ttl time.Duration) ([]byte, error) {
	a := t.Authority()
	if a == nil {
		return nil, &membership.Error{Kind: membership.Forbidden, Text: "this cluster has no authority of its own: its certificates come from its operator"}
	}
	now := time.Now()
	ca, err := pki.ParseCA(a.GetCertificate(), pki.KeyPEM(a.GetKey()), now)
	if err != nil {
		return nil, fmt.Errorf("the cluster's authority: %w", err)
	}
	cert, err := ca.Sign(csr, id, hosts, now, ttl)
	if err != nil {
		return nil, &membership.Error{Kind: membership.Invalid, Text: "csr: " + err.Error()}
	}
	return cert, nil
}

func fingerprint(certPEM []byte) string {
	certs, err := pki.ParseCertificates(certPEM)
	if err != nil || len(certs) == 0 {
		return ""
	}
	return pki.Fingerprint(certs[0]).String()
}

// lateMembers are those that are not dead and of which it does not hold.
func lateMembers(t *membership.Table, holds func(*membership.Member) bool) (late []quota.NodeID) {
	for _, id := range t.IDs() {
		if m := t.Member(id); !m.Dead && !holds(m) {
			late = append(late, id)
		}
	}
	return late
}

func putAuthority(a *raftlogv1.StoredAuthority) *raftlogv1.ChangeMembers {
	return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Authority{Authority: a}}
}

// introduce tells the meta leader how this node is, when the membership says
// something else, and renews its certificate.
func (n *Node) introduce(ctx context.Context) {
	v := n.view.Load()
	have := v.member(n.cfg.Self)
	if have == nil {
		return // nobody is a member yet
	}
	if err := n.takeTrust(n.meta.Members.Load()); err != nil {
		n.log.Error("trusted certificates not taken over", "err", err)
	}
	self := n.selfMember(have)
	if n.routes.metaLeader() == "" {
		n.callOut(ctx, self)
		return
	}
	csr, err := n.wantCertificate()
	if err != nil {
		n.log.Error("certificate not renewed", "err", err)
	}
	if csr == nil && sameMember(self, have) && !have.Dead {
		return
	}
	if err := n.tellLeader(ctx, self, csr); err != nil && ctx.Err() == nil {
		n.log.Debug("the meta leader does not know the state of this node yet", "err", err)
	}
}

// callOut tells every node where this one is: it hears of no leader, which may be because
// they look for it elsewhere. Its own copy of the membership may be older than the address
// that they have, so it tells its own also where that seems to be known. The leader takes
// it over, whether or not its answer arrives.
func (n *Node) callOut(ctx context.Context, self *membership.Member) {
	ctx, cancel := context.WithTimeout(ctx, callOutLimit)
	defer cancel()
	msg := &peerv1.Call{Body: &peerv1.Call_Announce{Announce: &peerv1.CallAnnounce{Member: snapshotio.Encode(self.Encode())}}}
	var wg sync.WaitGroup
	for _, id := range n.view.Load().ids {
		if id != n.cfg.Self {
			wg.Go(func() { _, _ = n.call(ctx, id, msg) }) // without an answer, as said
		}
	}
	wg.Wait()
}

// selfMember is this node as it is, for the membership.
func (n *Node) selfMember(have *membership.Member) *membership.Member {
	self := *have
	self.Version, self.Level = n.cfg.Version, membership.Level
	for _, f := range []struct {
		to   *string
		from string
	}{{&self.Peer, n.cfg.Nodes[n.cfg.Self]}, {&self.GRPC, n.cfg.GRPC}, {&self.HTTP, n.cfg.HTTP}, {&self.Zone, n.cfg.Zone}} {
		if f.from != "" {
			*f.to = f.from
		}
	}
	if have.First == 0 && !have.Joined.IsZero() {
		self.First = n.first
	}
	if c := n.cfg.Certificates; c != nil {
		self.Trusts, self.SignedBy = c.Trusts(), c.Signer()
	}
	return &self
}

func sameMember(a, b *membership.Member) bool {
	return a.Peer == b.Peer && a.GRPC == b.GRPC && a.HTTP == b.HTTP && a.Zone == b.Zone && a.Version == b.Version && a.Level == b.Level &&
		slices.Equal(a.Trusts, b.Trusts) && a.SignedBy == b.SignedBy && a.First == b.First
}

// wantCertificate asks for another certificate when this one ends soon, or is of an
// authority that signs no more.
func (n *Node) wantCertificate() ([]byte, error) {
	c, a := n.cfg.Certificates, n.meta.Members.Load().Authority()
	if c == nil || a == nil || !c.NeedsRenewal(time.Now()) && c.Signer() == fingerprint(a.GetCertificate()) {
		return nil, nil
	}
	return c.Request()
}

func (n *Node) tellLeader(ctx context.Context, self *membership.Member, csr []byte) error {
	msg := &peerv1.CallAnnounce{Member: snapshotio.Encode(self.Encode()), Csr: csr}
	var res *peerv1.CallAnnounceResult
	switch to := n.routes.metaLeader(); to {
	case "":
		return errors.New("the meta group has no leader")
	case n.cfg.Self:
		var err error
		if res, err = n.announced(ctx, n.cfg.Self, msg); err != nil {
			return err
		}
	default:
		c, err := n.call(ctx, to, &peerv1.Call{Body: &peerv1.Call_Announce{Announce: msg}})
		if err != nil {
			return err
		}
		res = c.GetAnnounceResult()
	}
	if res.GetGone() {
		n.gone("the meta leader knows no member of its name")
	}
	if len(res.GetCertificate()) > 0 && n.cfg.Certificates != nil {
		n.log.Info("certificate renewed")
		return n.cfg.Certificates.Install(res.Certificate)
	}
	return nil
}
