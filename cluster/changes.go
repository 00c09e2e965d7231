package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
)

// changeLimit bounds a call of ChangeCluster without a deadline of its own.
const changeLimit = 10 * time.Second

// ChangeCluster carries out a call of ClusterService that the leader of the meta
// group has to: req is its request, what it returns is its response. by is the
// caller's identity. A refusal is a *membership.Error, the lack of a leader a
// NoLeaderError, an answer that was lost may be an UnknownError. It tries again until ctx ends,
// for at most ten seconds; what a repetition would do twice it does not repeat.
func (n *Node) ChangeCluster(ctx context.Context, by string, req proto.Message) (proto.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, changeLimit)
	defer cancel()
	if err := n.awaitMembership(ctx, methodOf(req)); err != nil {
		return nil, err
	}
	seed, doubt := pki.NewSeed(), false
	for {
		res, err := n.changeOnce(ctx, by, req, seed)
		if r, ok := res.(*quoratev1.RotateAuthorityResponse); ok && err == nil {
			n.addSeen(r)
		}
		refusal := (*membership.Error)(nil)
		if errors.As(err, &refusal) && refusal.Kind == membership.Missing && doubt {
			if _, revokes := req.(*quoratev1.RevokeJoinTokenRequest); revokes { // by the try whose answer was lost
				return &quoratev1.RevokeJoinTokenResponse{}, nil
			}
		}
		if err == nil || refusal != nil {
			return res, err
		}
		doubt = doubt || errors.Is(err, errInDoubt)
		if r, rotates := req.(*quoratev1.RotateAuthorityRequest); rotates && !r.GetAsk() && doubt { // a repetition may be the next step
			return nil, &quota.UnknownOutcomeError{Reason: fmt.Sprintf("the authority may have been rotated on; look how far it is before you go on: %v", err)}
		}
		select {
		case <-ctx.Done():
			if doubt {
				return nil, &quota.UnknownOutcomeError{Reason: fmt.Sprintf("the change of the cluster may have been made: %v", err)}
			}
			return nil, &quota.NoLeaderError{Reason: fmt.Sprintf("the change of the cluster was not made: %v", err)}
		case <-time.After(retryPause):
		}
	}
}

// errInDoubt says that a change of the cluster may have been made.
var errInDoubt = errors.New("the outcome is not known")

// changeOnce makes one try. After errInDoubt it may have been carried out, or may yet be.
func (n *Node) changeOnce(ctx context.Context, by string, req proto.Message, seed pki.Seed) (proto.Message, error) {
	if n.leadsMeta() {
		res, err := n.change(ctx, by, req, seed)
		if errors.Is(err, raftgroup.ErrUncertain) {
			err = fmt.Errorf("%w: %w", errInDoubt, err)
		}
		return res, err
	}
	to := n.routes.metaLeader()
	if to == "" || to == n.cfg.Self {
		return nil, errors.New("the meta group has no leader")
	}
	msg := &peerv1.CallCluster{Method: methodOf(req), Request: snapshotio.Encode(req), By: by, Seed: seed[:]}
	c, err := accountsNode{n}.Call(ctx, to, &peerv1.Call{Body: &peerv1.Call_Cluster{Cluster: msg}}) // waits for a disk
	if err != nil && !unsent(err) {
		err = fmt.Errorf("%w: %w", errInDoubt, err)
	}
	if err != nil {
		return nil, err
	}
	return decodeChange(c.GetClusterResult(), req)
}

// methodOf is the method whose request it is.
func methodOf(req proto.Message) string {
	return strings.TrimSuffix(string(req.ProtoReflect().Descriptor().Name()), "Request")
}

// changeMessages are a request and a response of each method.
var changeMessages = map[string][2]proto.Message{}

func init() {
	for _, m := range [][2]proto.Message{
		{&quoratev1.GetStatusRequest{}, &quoratev1.GetStatusResponse{}}, // what the meta leader alone knows
		{&quoratev1.JoinRequest{}, &quoratev1.JoinResponse{}},
		{&quoratev1.CreateJoinTokenRequest{}, &quoratev1.CreateJoinTokenResponse{}},
		{&quoratev1.ListJoinTokensRequest{}, &quoratev1.ListJoinTokensResponse{}},
		{&quoratev1.RevokeJoinTokenRequest{}, &quoratev1.RevokeJoinTokenResponse{}},
		{&quoratev1.GetPlanRequest{}, &quoratev1.GetPlanResponse{}},
		{&quoratev1.ChangeNodeRequest{}, &quoratev1.ChangeNodeResponse{}},
		{&quoratev1.TransferLeadershipRequest{}, &quoratev1.TransferLeadershipResponse{}},
		{&quoratev1.IssueCertificateRequest{}, &quoratev1.IssueCertificateResponse{}},
		{&quoratev1.RotateAuthorityRequest{}, &quoratev1.RotateAuthorityResponse{}},
	} {
		changeMessages[methodOf(m[0])] = m
	}
}

// onCluster carries out what another node passed on.
func (n *Node) onCluster(ctx context.Context, c *peerv1.CallCluster) *peerv1.CallClusterResult {
	m, ok := changeMessages[c.GetMethod()]
	if !ok {
		return failedChange(&membership.Error{Text: fmt.Sprintf("this version does not know the call %q; upgrade every node", c.GetMethod())})
	}
	req := m[0].ProtoReflect().New().Interface()
	if err := proto.Unmarshal(c.GetRequest(), req); err != nil {
		return failedChange(err)
	}
	if !n.leadsMeta() {
		return failedChange(raftgroup.ErrNotLeader)
	}
	var seed pki.Seed
	if copy(seed[:], c.GetSeed()) != len(seed) {
		return failedChange(invalid("seed: %d bytes; must be %d", len(c.GetSeed()), len(seed)))
	}
	res, err := n.change(ctx, c.GetBy(), req, seed)
	if err != nil {
		return failedChange(err)
	}
	return &peerv1.CallClusterResult{Response: snapshotio.Encode(res)}
}

// failedChange keeps a refusal what it is; anything else is worth another try, if a repetition does
// no harm: it says whether nothing was done for certain.
func failedChange(err error) *peerv1.CallClusterResult {
	st := &spb.Status{Code: int32(codes.Unavailable), Message: err.Error()}
	if errors.Is(err, raftgroup.ErrUncertain) {
		st.Code = int32(codes.Unknown)
	}
	if refusal := (*membership.Error)(nil); errors.As(err, &refusal) {
		st.Code = int32(refusal.Kind.Code())
	}
	return &peerv1.CallClusterResult{Status: snapshotio.Encode(st)}
}

func decodeChange(r *peerv1.CallClusterResult, req proto.Message) (proto.Message, error) {
	if len(r.GetStatus()) > 0 {
		var st spb.Status
		if err := proto.Unmarshal(r.Status, &st); err != nil {
			return nil, err
		}
		switch codes.Code(st.Code) { //nolint:exhaustive // the others are refusals
		case codes.Unavailable:
			return nil, errors.New(st.Message)
		case codes.Unknown:
			return nil, fmt.Errorf("%w: %s", errInDoubt, st.Message)
		}
		return nil, &membership.Error{Kind: membership.KindOf(codes.Code(st.Code)), Text: st.Message}
	}
	res := changeMessages[methodOf(req)][1].ProtoReflect().New().Interface()
	return res, proto.Unmarshal(r.GetResponse(), res)
}

// change carries a call out as the leader of the meta group.
func (n *Node) change(ctx context.Context, by string, req proto.Message, seed pki.Seed) (proto.Message, error) {
	if _, asks := req.(*quoratev1.GetStatusRequest); !asks && !n.meta.Members.Load().Seeded() { // a moment after the first start
		return nil, errors.New("the cluster has no membership yet: it makes one once all its nodes are connected")
	}
	switch r := req.(type) {
	case *quoratev1.GetStatusRequest:
		return n.leaderStatus(), nil
	case *quoratev1.JoinRequest:
		return n.join(ctx, by, r)
	case *quoratev1.CreateJoinTokenRequest:
		return n.createToken(ctx, by, r, seed)
	case *quoratev1.ListJoinTokensRequest:
		return n.listTokens(), nil
	case *quoratev1.RevokeJoinTokenRequest:
		return n.revokeToken(ctx, r)
	case *quoratev1.GetPlanRequest:
		return n.getPlan(ctx, r)
	case *quoratev1.ChangeNodeRequest:
		return n.changeNode(ctx, r)
	case *quoratev1.TransferLeadershipRequest:
		return n.transferLeadership(ctx, r)
	case *quoratev1.IssueCertificateRequest:
		return n.issueCertificate(r)
	case *quoratev1.RotateAuthorityRequest:
		return n.rotateAuthority(ctx, r)
	}
	return nil, invalid("request %s: is no change of the cluster", req.ProtoReflect().Descriptor().Name())
}

func invalid(format string, args ...any) error {
	return &membership.Error{Kind: membership.Invalid, Text: fmt.Sprintf(format, args...)}
}

// amend makes a change from the newest membership, again while others make theirs.
// A nil change is none.
func (n *Node) amend(ctx context.Context, make func(t *membership.Table) (*raftlogv1.ChangeMembers, error)) (*membership.Table, error) {
	for {
		t := n.meta.Members.Load()
		c, err := make(t)
		if c == nil || err != nil {
			return t, err
		}
		after, err := n.commitMembers(ctx, t, c)
		if !errors.Is(err, membership.ErrStale) {
			return after, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// join takes a node in.
func (n *Node) join(ctx context.Context, by string, r *quoratev1.JoinRequest) (_ *quoratev1.JoinResponse, err error) {
	ctx, span := n.cfg.Tracer.Start(ctx, "quorate.cluster.join")
	defer func() { span.End(err) }()
	span.Text("quorate.node", r.GetNode())
	span.Text("quorate.zone", r.GetZone())
	m := &membership.Member{
		ID: quota.NodeID(r.GetNode()), Peer: r.GetPeerAddress(), GRPC: r.GetGrpcAddress(), HTTP: r.GetHttpAddress(), Zone: r.GetZone(),
		Version: r.GetVersion(), Level: r.GetLevel(), State: membership.Active, Joined: time.Unix(0, int64(n.clock.now())), JoinID: string(r.GetJoinId()),
	}
	reached := false
	t, err := n.amend(ctx, func(t *membership.Table) (*raftlogv1.ChangeMembers, error) {
		token, err := admit(t, by, r, time.Unix(0, int64(n.clock.now())))
		if err != nil {
			return nil, err
		}
		if have := t.Member(m.ID); have != nil && have.JoinID == m.JoinID && m.JoinID != "" {
			return nil, nil // the same join, repeated
		}
		if !reached { // not while others wait for the log
			if err := n.reach(ctx, m, r.GetCsr()); err != nil {
				return nil, err
			}
			reached = true
		}
		return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Add{Add: &raftlogv1.AddMember{Member: m.Encode(), Token: token}}}, nil
	})
	if err != nil {
		return nil, err
	}
	n.log.Info("a node joins", "node", m.ID, "peer", m.Peer, "zone", m.Zone, "by", by)
	return n.welcome(t, r)
}

// welcome is what a new member needs.
func (n *Node) welcome(t *membership.Table, r *quoratev1.JoinRequest) (*quoratev1.JoinResponse, error) {
	out := &quoratev1.JoinResponse{
		Cluster: n.cfg.Cluster, Ranges: uint32(n.cfg.Ranges), Replicas: uint32(t.Replicas()), Sync: durationpb.New(n.cfg.Sync),
		Nodes: map[string]string{}, Trust: trustOf(t.Authority()),
	}
	for _, id := range t.IDs() {
		out.Nodes[string(id)] = t.Member(id).Peer
	}
	if len(r.GetCsr()) == 0 || t.Authority() == nil {
		return out, nil
	}
	cert, err := n.sign(t, r.Csr, pki.Identity{Cluster: n.cfg.Cluster, Kind: pki.Node, Name: r.GetNode()}, hostsOf(r.GetPeerAddress(), r.GetGrpcAddress(), r.GetHttpAddress()), certificateTTL)
	out.Certificate = cert
	return out, err
}

// hostsOf are the hosts of addresses, for a certificate.
func hostsOf(addrs ...string) (hosts []string) {
	for _, a := range addrs {
		if host, _, err := net.SplitHostPort(a); err == nil && host != "" {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// admit says whether a node may join, and the id of the token that lets it in;
// none for one that shows a node certificate of its name.
func admit(t *membership.Table, by string, r *quoratev1.JoinRequest, now time.Time) (token string, err error) {
	if r.GetLevel() < t.Level() {
		return "", &membership.Error{Kind: membership.Forbidden, Text: fmt.Sprintf(
			"version %q of the new node has feature level %d; the cluster needs %d: use the cluster's version", r.GetVersion(), r.GetLevel(), t.Level())}
	}
	if r.GetToken() == "" {
		if by == "node:"+r.GetNode() {
			return "", t.NeedsToken(quota.NodeID(r.GetNode()))
		}
		return "", &membership.Error{Kind: membership.Denied, Text: "token: is missing; \"quorate join-token create\" makes one"}
	}
	given, err := pki.ParseJoinToken(r.GetToken())
	if err != nil {
		return "", &membership.Error{Kind: membership.Denied, Text: err.Error()}
	}
	have := t.Token(given.ID)
	if have == nil {
		if m := t.Member(quota.NodeID(r.GetNode())); m != nil && m.JoinID == string(r.GetJoinId()) && m.JoinID != "" && now.Sub(m.Joined) < joinAgain {
			return "", nil // its last use was this join, whose answer was lost
		}
		return "", &membership.Error{Kind: membership.Denied, Text: fmt.Sprintf(
			"join token %s: this cluster does not know it: it is used up, has expired, was revoked, or is another cluster's; \"quorate join-token create\" makes a new one", given.ID)}
	}
	if !given.Secret.Matches(pki.Hash(have.GetHash())) {
		return "", &membership.Error{Kind: membership.Denied, Text: fmt.Sprintf("join token %s: its secret is wrong", given.ID)}
	}
	if time.Now().UnixNano() >= have.GetExpiresUnixNanos() {
		return "", &membership.Error{Kind: membership.Denied, Text: fmt.Sprintf("join token %s: it expired at %s; \"quorate join-token create\" makes a new one",
			given.ID, time.Unix(0, have.GetExpiresUnixNanos()).UTC().Format(time.RFC3339))}
	}
	return given.ID, nil
}

// joinAgain is how long a join whose answer was lost may be repeated with a token
// that is used up: its id is no secret for longer.
const joinAgain = 10 * time.Minute

// reach refuses an address at which the new node does not answer itself: nobody else would
// be a member that others can talk to, and what an address names is not the caller's to choose. Without TLS
// anybody who listens will do.
func (n *Node) reach(ctx context.Context, m *membership.Member, csr []byte) error {
	if _, port, err := net.SplitHostPort(m.Peer); err != nil || port == "" {
		return invalid("peer_address %q: must be host:port that the other nodes reach", m.Peer)
	}
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.Peer)
	if err != nil {
		return invalid("peer_address %s: the cluster cannot reach the new node there: %v", m.Peer, err)
	}
	defer c.Close() //nolint:errcheck // it only asked who is there
	if n.cfg.TLS == nil {
		return nil
	}
	config := n.cfg.TLS.Client(m.ID)
	if len(csr) > 0 {
		if config, err = pki.ProbeConfig(csr); err != nil {
			return invalid("csr: %v", err)
		}
	}
	if err := tls.Client(c, config).HandshakeContext(ctx); err != nil {
		return invalid("peer_address %s: the cluster reaches it, but the new node does not answer there: %v", m.Peer, pki.Explain(err))
	}
	return nil
}

// reachLimit bounds the look at an address.
const reachLimit = 2 * time.Second

// Bounds of join tokens.
const (
	defaultTokenTTL = time.Hour
	maxTokenTTL     = 30 * 24 * time.Hour
)

// createToken makes the token of a seed, unless it is there: a call that is repeated makes one.
func (n *Node) createToken(ctx context.Context, by string, r *quoratev1.CreateJoinTokenRequest, seed pki.Seed) (*quoratev1.CreateJoinTokenResponse, error) {
	ttl := defaultTokenTTL
	if r.Ttl != nil {
		ttl = r.Ttl.AsDuration()
	}
	if ttl < time.Second || ttl > maxTokenTTL {
		return nil, invalid("ttl: %v; must be 1s to 720h", ttl)
	}
	uses := max(r.GetUses(), 1)
	if uses > membership.MaxMembers {
		return nil, invalid("uses: %d; must be 1 to %d", uses, membership.MaxMembers)
	}
	now := time.Now()
	var token string
	var stored *raftlogv1.StoredJoinToken
	t, err := n.amend(ctx, func(t *membership.Table) (*raftlogv1.ChangeMembers, error) {
		certs, err := pki.ParseCertificates(t.Authority().GetCertificate())
		if t.Authority() != nil && err != nil {
			return nil, err
		}
		ca := &x509.Certificate{} // the hash of nothing: the joiner has no authority to check
		if len(certs) > 0 {
			ca = certs[0]
		}
		var id string
		var hash pki.Hash
		token, id, hash = pki.NewJoinToken(ca, seed)
		if stored = t.Token(id); stored != nil {
			return nil, nil
		}
		stored = &raftlogv1.StoredJoinToken{
			Id: id, Hash: hash[:], UsesLeft: uses, By: by, Authority: fingerprint(t.Authority().GetCertificate()), CreatedUnixNanos: now.UnixNano(), ExpiresUnixNanos: now.Add(ttl).UnixNano(),
		}
		return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_Token{Token: stored}}, nil
	})
	if err != nil {
		return nil, err
	}
	out := &quoratev1.CreateJoinTokenResponse{Token: token, Info: publicToken(t, stored)}
	for _, id := range t.IDs() {
		if a := t.Member(id).GRPC; a != "" {
			out.Addresses = append(out.Addresses, a)
		}
	}
	return out, nil
}

func publicToken(in *membership.Table, t *raftlogv1.StoredJoinToken) *quoratev1.JoinToken {
	out := &quoratev1.JoinToken{
		Id: t.GetId(), UsesLeft: t.GetUsesLeft(), By: t.GetBy(),
		CreatedAt: timestamppb.New(time.Unix(0, t.GetCreatedUnixNanos())), ExpiresAt: timestamppb.New(time.Unix(0, t.GetExpiresUnixNanos())),
	}
	if !namesAuthority(in.Authority(), t) {
		out.Unusable = "it names an authority that was replaced since: revoke it and make a new one"
	}
	return out
}

// namesAuthority says whether a join token names the authority that signs: who joins with
// it trusts no other.
func namesAuthority(a *raftlogv1.StoredAuthority, t *raftlogv1.StoredJoinToken) bool {
	return t.GetAuthority() == fingerprint(a.GetCertificate())
}

// lostTokens counts the join tokens that name another authority than the one that signs, or
// is going to.
func lostTokens(t *membership.Table) (lost uint32) {
	a := t.Authority()
	for _, token := range t.Tokens() {
		if token.GetExpiresUnixNanos() > time.Now().UnixNano() && (len(a.GetNextCertificate()) > 0 || !namesAuthority(a, token)) {
			lost++
		}
	}
	return lost
}

func (n *Node) listTokens() *quoratev1.ListJoinTokensResponse {
	out := &quoratev1.ListJoinTokensResponse{}
	in := n.meta.Members.Load()
	for _, t := range in.Tokens() {
		if t.GetExpiresUnixNanos() > time.Now().UnixNano() {
			out.Tokens = append(out.Tokens, publicToken(in, t))
		}
	}
	return out
}

func (n *Node) revokeToken(ctx context.Context, r *quoratev1.RevokeJoinTokenRequest) (*quoratev1.RevokeJoinTokenResponse, error) {
	_, err := n.amend(ctx, func(*membership.Table) (*raftlogv1.ChangeMembers, error) {
		return &raftlogv1.ChangeMembers{Change: &raftlogv1.ChangeMembers_DropToken{DropToken: &raftlogv1.DropJoinToken{Id: r.GetId()}}}, nil
	})
	return &quoratev1.RevokeJoinTokenResponse{}, err
}

// announced takes over what a node says of itself.
func (n *Node) announced(ctx context.Context, from quota.NodeID, c *peerv1.CallAnnounce) (*peerv1.CallAnnounceResult, error) {
	pb := &raftlogv1.StoredMember{}
	if err := proto.Unmarshal(c.GetMember(), pb); err != nil {
		return nil, err
	}
	if !n.leadsMeta() {
		return nil, raftgroup.ErrNotLeader
	}
	told := membership.DecodeMember(pb)
	t, err := n.amend(ctx, func(t *membership.Table) (*raftlogv1.ChangeMembers, error) {
		have := t.Member(from)
		revived := have != nil && have.Dead && have.State != membership.Leaving
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
		out.Certificate, err = n.sign(t, c.Csr, pki.Identity{Cluster: n.cfg.Cluster, Kind: pki.Node, Name: string(from)}, hostsOf(m.Peer, m.GRPC, m.HTTP), certificateTTL)
	}
	return out, err
}
