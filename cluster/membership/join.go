package membership

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/quota"
)

// join adds a node to the cluster, if it is authorized and answers at its address.
func (s *Service) join(ctx context.Context, c *caller, r *quoratev1.JoinRequest) (_ *quoratev1.JoinResponse, err error) {
	ctx, span := s.cfg.Tracer.Start(ctx, "quorate.cluster.join")
	defer func() { span.End(err) }()
	span.Text("quorate.node", r.GetNode())
	span.Text("quorate.zone", r.GetZone())
	m := &Member{
		ID: quota.NodeID(r.GetNode()), Peer: r.GetPeerAddress(), GRPC: r.GetGrpcAddress(), HTTP: r.GetHttpAddress(), Zone: r.GetZone(),
		Version: r.GetVersion(), Level: r.GetLevel(), State: Active, Joined: s.now(), JoinID: string(r.GetJoinId()),
	}
	if len(r.GetCsr()) > 0 { // else, the certificate would be refused once the node is a member
		if err := (pki.Identity{Kind: pki.Node, Name: r.GetNode()}).CheckNew(); err != nil {
			return nil, refuse(Invalid, "%v", err)
		}
	}
	reached := false
	t, err := s.amend(ctx, c.revision, func(t *Table) (*raftlogv1.ChangeMembers, error) {
		token, err := authorizeJoin(t, c.by, r, s.now())
		if err != nil {
			return nil, err
		}
		if have := t.Member(m.ID); have != nil && have.JoinID == m.JoinID && m.JoinID != "" {
			return nil, nil // a repetition of the same join
		}
		if !reached { // once, even if amend tries again: no proposal waits for it
			if err := s.reach(ctx, m, r.GetCsr()); err != nil {
				return nil, err
			}
			reached = true
		}
		return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Add{Add: &raftlogv1.AddMember{Member: m.Encode(), Token: token}}}, nil
	})
	if err != nil {
		return nil, err
	}
	s.log.Info("a node joins", "node", m.ID, "peer", m.Peer, "zone", m.Zone, "by", c.by)
	return s.welcome(t, r)
}

func (s *Service) joined(c *caller, t *Table, r *quoratev1.JoinRequest) (*quoratev1.JoinResponse, bool, error) {
	if m := t.Member(quota.NodeID(r.GetNode())); m == nil || m.JoinID != string(r.GetJoinId()) || m.JoinID == "" {
		return nil, false, nil
	}
	if _, err := authorizeJoin(t, c.by, r, s.now()); err != nil { // the try that was lost may have been refused
		return nil, false, err
	}
	out, err := s.welcome(t, r)
	return out, true, err
}

// welcome returns the settings, address book, trust and certificate that a new member needs.
func (s *Service) welcome(t *Table, r *quoratev1.JoinRequest) (*quoratev1.JoinResponse, error) {
	out := &quoratev1.JoinResponse{
		Cluster: s.cfg.Cluster, Ranges: uint32(s.cfg.Ranges), Replicas: uint32(t.Replicas()), Sync: durationpb.New(s.cfg.Sync),
		Nodes: map[string]string{}, Trust: trustOf(t.Authority()),
	}
	for _, id := range t.IDs() {
		out.Nodes[string(id)] = t.Member(id).Peer
	}
	if len(r.GetCsr()) == 0 || t.Authority() == nil {
		return out, nil
	}
	cert, err := s.sign(t, r.Csr, pki.Identity{Cluster: s.cfg.Cluster, Kind: pki.Node, Name: r.GetNode()}, hostsOf(r.GetPeerAddress(), r.GetGrpcAddress(), r.GetHttpAddress()), certificateTTL)
	out.Certificate = cert
	return out, err
}

// hostsOf returns the hosts of addresses, for a certificate.
func hostsOf(addrs ...string) (hosts []string) {
	for _, a := range addrs {
		if host, _, err := net.SplitHostPort(a); err == nil && host != "" {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// authorizeJoin checks whether a node may join, and returns the id of the token that admits it. The
// id is empty for a node that authenticates with a node certificate of its name, and for a repetition
// of a join that used up its token.
func authorizeJoin(t *Table, by string, r *quoratev1.JoinRequest, now time.Time) (token string, err error) {
	if r.GetLevel() < t.Level() {
		return "", refuse(Forbidden, "version %q of the new node has feature level %d; the cluster needs %d: use the cluster's version", r.GetVersion(), r.GetLevel(), t.Level())
	}
	if r.GetToken() == "" {
		if by == "node:"+r.GetNode() {
			return "", t.NeedsToken(quota.NodeID(r.GetNode()))
		}
		return "", &Error{Kind: Denied, Text: "token: is missing; \"quorate join-token create\" makes one"}
	}
	given, err := pki.ParseJoinToken(r.GetToken())
	if err != nil {
		return "", &Error{Kind: Denied, Text: err.Error()}
	}
	have := t.Token(given.ID)
	if have == nil {
		if m := t.Member(quota.NodeID(r.GetNode())); m != nil && m.JoinID == string(r.GetJoinId()) && m.JoinID != "" && now.Sub(m.Joined) < joinRetryWindow {
			return "", nil // this join used the token up, and its answer was lost
		}
		return "", refuse(Denied, "join token %s: unknown to this cluster: used up, expired, revoked, or of another cluster; \"quorate join-token create\" creates a new one", given.ID)
	}
	if !given.Secret.Matches(pki.Hash(have.GetHash())) {
		return "", refuse(Denied, "join token %s: its secret is wrong", given.ID)
	}
	if now.UnixNano() >= have.GetExpiresUnixNanos() {
		return "", refuse(Denied, "join token %s: it expired at %s; \"quorate join-token create\" makes a new one",
			given.ID, time.Unix(0, have.GetExpiresUnixNanos()).UTC().Format(time.RFC3339))
	}
	return given.ID, nil
}

// joinRetryWindow is how long a join whose answer was lost may be repeated with a used-up
// token. The join id does not count as secret for longer.
const joinRetryWindow = 10 * time.Minute

// reach refuses a peer address at which the new node itself does not answer: the others could not
// talk to such a member, and a caller must not make the cluster use an arbitrary address. Without
// TLS any listener is accepted.
func (s *Service) reach(ctx context.Context, m *Member, csr []byte) error {
	if _, port, err := net.SplitHostPort(m.Peer); err != nil || port == "" {
		return refuse(Invalid, "peer_address %q: must be host:port that the other nodes reach", m.Peer)
	}
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.Peer)
	if err != nil {
		return refuse(Invalid, "peer_address %s: the cluster cannot reach the new node there: %v", m.Peer, err)
	}
	defer c.Close() //nolint:errcheck // it only asked for an identity
	if s.cfg.TLS == nil {
		return nil
	}
	config := s.cfg.TLS.Client(m.ID)
	if len(csr) > 0 {
		if config, err = pki.ProbeConfig(csr); err != nil {
			return refuse(Invalid, "csr: %v", err)
		}
	}
	if err := tls.Client(c, config).HandshakeContext(ctx); err != nil {
		return refuse(Invalid, "peer_address %s: the cluster reaches it, but the new node does not answer there: %v", m.Peer, pki.Explain(err))
	}
	return nil
}

// reachLimit bounds the check of an address.
const reachLimit = 2 * time.Second

// Bounds of join tokens.
const (
	defaultTokenTTL = time.Hour
	maxTokenTTL     = 30 * 24 * time.Hour
)

// createToken creates the join token that the caller's seed determines, unless it exists: a repeated
// call creates a single token.
func (s *Service) createToken(ctx context.Context, c *caller, r *quoratev1.CreateJoinTokenRequest) (*quoratev1.CreateJoinTokenResponse, error) {
	ttl := defaultTokenTTL
	if r.Ttl != nil {
		ttl = r.Ttl.AsDuration()
	}
	if ttl < time.Second || ttl > maxTokenTTL {
		return nil, refuse(Invalid, "ttl: %v; must be 1s to 720h", ttl)
	}
	uses := max(r.GetUses(), 1)
	if uses > MaxMembers {
		return nil, refuse(Invalid, "uses: %d; must be 1 to %d", uses, MaxMembers)
	}
	now := s.now()
	t, err := s.amend(ctx, c.revision, func(t *Table) (*raftlogv1.ChangeMembers, error) {
		_, id, hash, err := tokenOf(t, c)
		if err != nil || t.Token(id) != nil {
			return nil, err
		}
		return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Token{Token: &raftlogv1.StoredJoinToken{
			Id: id, Hash: hash[:], UsesLeft: uses, By: c.by, Authority: fingerprint(t.Authority().GetCertificate()), CreatedUnixNanos: now.UnixNano(), ExpiresUnixNanos: now.Add(ttl).UnixNano(),
		}}}, nil
	})
	if err != nil {
		return nil, err
	}
	out, _, err := s.tokenCreated(c, t, r)
	return out, err
}

// tokenOf returns the join token that the caller's seed determines, its id and the hash of its secret.
func tokenOf(t *Table, c *caller) (token, id string, hash pki.Hash, err error) {
	certs, err := pki.ParseCertificates(t.Authority().GetCertificate())
	if t.Authority() != nil && err != nil {
		return "", "", pki.Hash{}, err
	}
	ca := &x509.Certificate{} // the token then has the hash of nothing: the joining node has no authority to check
	if len(certs) > 0 {
		ca = certs[0]
	}
	token, id, hash = pki.NewJoinToken(ca, c.seed)
	return token, id, hash, nil
}

func (s *Service) tokenCreated(c *caller, t *Table, _ *quoratev1.CreateJoinTokenRequest) (*quoratev1.CreateJoinTokenResponse, bool, error) {
	token, id, _, err := tokenOf(t, c)
	stored := t.Token(id)
	if err != nil || stored == nil {
		return nil, false, err
	}
	out := &quoratev1.CreateJoinTokenResponse{Token: token, Info: publicToken(t, stored)}
	for _, id := range t.IDs() {
		if a := t.Member(id).GRPC; a != "" {
			out.Addresses = append(out.Addresses, a)
		}
	}
	return out, true, nil
}

func publicToken(in *Table, t *raftlogv1.StoredJoinToken) *quoratev1.JoinToken {
	out := &quoratev1.JoinToken{
		Id: t.GetId(), UsesLeft: t.GetUsesLeft(), By: t.GetBy(),
		CreatedAt: timestamppb.New(time.Unix(0, t.GetCreatedUnixNanos())), ExpiresAt: timestamppb.New(time.Unix(0, t.GetExpiresUnixNanos())),
	}
	if !namesAuthority(in.Authority(), t) {
		out.Unusable = "it names an authority that was replaced since: revoke it and make a new one"
	}
	return out
}

// namesAuthority reports whether a join token names the signing authority. A node that joins with
// the token trusts no other.
func namesAuthority(a *raftlogv1.StoredAuthority, t *raftlogv1.StoredJoinToken) bool {
	return t.GetAuthority() == fingerprint(a.GetCertificate())
}

// lostTokens counts the unexpired join tokens that a rotation has made unusable or will: all of them
// while there is a next authority, otherwise those that do not name the signing one.
func lostTokens(t *Table, now time.Time) (lost uint32) {
	a := t.Authority()
	for _, token := range t.Tokens() {
		if token.GetExpiresUnixNanos() > now.UnixNano() && (len(a.GetNextCertificate()) > 0 || !namesAuthority(a, token)) {
			lost++
		}
	}
	return lost
}

func (s *Service) listTokens(context.Context, *caller, *quoratev1.ListJoinTokensRequest) (*quoratev1.ListJoinTokensResponse, error) {
	out := &quoratev1.ListJoinTokensResponse{}
	in := s.node.Table()
	for _, t := range in.Tokens() {
		if t.GetExpiresUnixNanos() > s.now().UnixNano() {
			out.Tokens = append(out.Tokens, publicToken(in, t))
		}
	}
	return out, nil
}

func (s *Service) revokeToken(ctx context.Context, c *caller, r *quoratev1.RevokeJoinTokenRequest) (*quoratev1.RevokeJoinTokenResponse, error) {
	_, err := s.amend(ctx, c.revision, func(*Table) (*raftlogv1.ChangeMembers, error) {
		return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_DropToken{DropToken: &raftlogv1.DropJoinToken{Id: r.GetId()}}}, nil
	})
	return &quoratev1.RevokeJoinTokenResponse{}, err
}

func tokenRevoked(_ *caller, t *Table, r *quoratev1.RevokeJoinTokenRequest) (*quoratev1.RevokeJoinTokenResponse, bool, error) {
	return &quoratev1.RevokeJoinTokenResponse{}, t.Token(r.GetId()) == nil, nil
}
