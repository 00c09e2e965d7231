package membership

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
)

// callOutLimit bounds one attempt to announce a new address.
const callOutLimit = 500 * time.Millisecond

// announceSelf sends this node's state to the meta leader if it differs from the membership,
// and renews the node's certificate. It also takes over the trusted authorities.
func (s *Service) announceSelf(ctx context.Context) {
	v := s.View()
	have := v.Member(s.cfg.Self)
	if have == nil {
		return // there is no membership yet
	}
	if c, a := s.cfg.Certificates, s.node.Table().Authority(); c != nil && a != nil {
		if err := c.SetTrust(trustOf(a)); err != nil {
			s.log.Error("trusted certificates not updated", "err", err)
		}
	}
	self := s.selfMember(have)
	if s.node.MetaLeader() == "" {
		s.announceToAll(ctx, self)
		return
	}
	csr, err := s.wantCertificate()
	if err != nil {
		s.log.Error("certificate not renewed", "err", err)
	}
	if csr == nil && sameMember(self, have) && !have.Dead {
		return
	}
	if err := s.announceToLeader(ctx, self, csr); err != nil && ctx.Err() == nil {
		s.log.Debug("the meta leader does not know the state of this node yet", "err", err)
	}
}

// announceToAll sends this node's state to every node. The node knows no leader, perhaps because
// the others use an old address for it. Its copy of the membership may be older than theirs, so it
// sends its address even if that copy already has it. The leader applies the announcement, whether
// or not its answer arrives.
func (s *Service) announceToAll(ctx context.Context, self *Member) {
	ctx, cancel := context.WithTimeout(ctx, callOutLimit)
	defer cancel()
	msg := &peerv1.Call{Body: &peerv1.Call_Announce{Announce: &peerv1.CallAnnounce{Member: snapshotio.Encode(self.Encode())}}}
	var wg sync.WaitGroup
	for _, id := range s.View().IDs {
		if id != s.cfg.Self {
			wg.Go(func() { _, _ = s.node.Call(ctx, id, msg) }) // the answer may not arrive: see above
		}
	}
	wg.Wait()
}

// selfMember returns this node's current state for the membership.
func (s *Service) selfMember(have *Member) *Member {
	self := *have
	self.Version, self.Level = s.cfg.Version, Level
	for _, f := range []struct {
		to   *string
		from string
	}{{&self.Peer, s.cfg.Nodes[s.cfg.Self]}, {&self.GRPC, s.cfg.GRPC}, {&self.HTTP, s.cfg.HTTP}, {&self.Zone, s.cfg.Zone}} {
		if f.from != "" {
			*f.to = f.from
		}
	}
	if have.First == 0 && !have.Joined.IsZero() {
		self.First = s.cfg.First
	}
	if c := s.cfg.Certificates; c != nil {
		self.Trusts, self.SignedBy = c.Trusts(), c.Signer()
	}
	return &self
}

func sameMember(a, b *Member) bool {
	return a.Peer == b.Peer && a.GRPC == b.GRPC && a.HTTP == b.HTTP && a.Zone == b.Zone && a.Version == b.Version && a.Level == b.Level &&
		slices.Equal(a.Trusts, b.Trusts) && a.SignedBy == b.SignedBy && a.First == b.First
}

// wantCertificate returns a certificate request if this node's certificate expires soon or its
// authority no longer signs, and nil otherwise.
func (s *Service) wantCertificate() ([]byte, error) {
	c, a := s.cfg.Certificates, s.node.Table().Authority()
	if c == nil || a == nil || !c.NeedsRenewal(time.Now()) && c.Signer() == fingerprint(a.GetCertificate()) {
		return nil, nil
	}
	return c.Request()
}

func (s *Service) announceToLeader(ctx context.Context, self *Member, csr []byte) error {
	msg := &peerv1.CallAnnounce{Member: snapshotio.Encode(self.Encode()), Csr: csr}
	var res *peerv1.CallAnnounceResult
	switch to := s.node.MetaLeader(); to {
	case "":
		return errors.New("the meta group has no leader")
	case s.cfg.Self:
		var err error
		if res, err = s.announced(ctx, s.cfg.Self, msg); err != nil {
			return err
		}
	default:
		c, err := s.node.Call(ctx, to, &peerv1.Call{Body: &peerv1.Call_Announce{Announce: msg}})
		if err != nil {
			return err
		}
		res = c.GetAnnounceResult()
	}
	if res.GetGone() {
		s.leave("the meta leader knows no member of this name")
	}
	if len(res.GetCertificate()) > 0 && s.cfg.Certificates != nil {
		s.log.Info("certificate renewed")
		return s.cfg.Certificates.Install(res.Certificate)
	}
	return nil
}

// announced applies a node's announcement of itself, and signs its certificate request, if any.
func (s *Service) announced(ctx context.Context, from quota.NodeID, c *peerv1.CallAnnounce) (*peerv1.CallAnnounceResult, error) {
	pb := &raftlogv1.StoredMember{}
	if err := proto.Unmarshal(c.GetMember(), pb); err != nil {
		return nil, err
	}
	if !s.LeadsMeta() {
		return nil, raftgroup.ErrNotLeader
	}
	told := DecodeMember(pb)
	t, err := s.amend(ctx, 0, func(t *Table) (*raftlogv1.ChangeMembers, error) {
		have := t.Member(from)
		revived := have != nil && have.Dead && have.State != Leaving
		if have == nil || sameMember(told, have) && !revived {
			return nil, nil
		}
		m := *have
		m.Dead = m.Dead && !revived
		if have.First == 0 && !have.Joined.IsZero() {
			m.First = told.First
		}
		m.Peer, m.GRPC, m.HTTP, m.Zone, m.Version, m.Level, m.Trusts, m.SignedBy = told.Peer, told.GRPC, told.HTTP, told.Zone, told.Version, told.Level, told.Trusts, told.SignedBy
		return putMember(&m), nil
	})
	if err != nil {
		return nil, err
	}
	out := &peerv1.CallAnnounceResult{Gone: t.Member(from) == nil}
	if len(c.GetCsr()) > 0 && !out.Gone {
		m := t.Member(from)
		out.Certificate, err = s.sign(t, c.Csr, pki.Identity{Cluster: s.cfg.Cluster, Kind: pki.Node, Name: string(from)}, hostsOf(m.Peer, m.GRPC, m.HTTP), certificateTTL)
	}
	return out, err
}
