package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorate/quorate/api"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/internal/pki"
)

// fakeMembers is a cluster of three nodes from the first change on; before that, fakeCluster.Status
// describes it. Every read advances the pending moves.
type fakeMembers struct {
	mu       sync.Mutex
	nodes    map[string]*quoratev1.NodeStatus // nil before the first change
	tokens   []*quoratev1.JoinToken
	ca       *pki.CA
	rotation string
}

var atTime = time.Unix(0, int64(at))

var _ api.Operator = (*fakeCluster)(nil)

// fakeToken has a made-up secret and CA hash.
var fakeToken = "quorate1.5d1fa2c07b3e." + strings.Repeat("s", 42) + "A.e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func (f *fakeMembers) begin() {
	if f.nodes != nil {
		return
	}
	f.nodes = map[string]*quoratev1.NodeStatus{}
	for _, id := range []string{"n1", "n2", "n3"} {
		f.nodes[id] = &quoratev1.NodeStatus{
			Id: id, PeerAddress: "10.0.0." + id[1:] + ":7413", Connected: true, Leads: 2, Replicas: 4, State: quoratev1.NodeState_NODE_STATE_ACTIVE,
			Zone: "z" + id[1:], Version: "v9", RoundTrip: durationpb.New(800 * time.Microsecond),
		}
	}
}

func (c *fakeCluster) FullStatus(context.Context) *quoratev1.GetStatusResponse {
	f := &c.members
	f.mu.Lock()
	defer f.mu.Unlock()
	st := c.Status()
	if f.nodes == nil {
		return st
	}
	st.Ready, st.Reason, st.MetaLeader, st.Nodes, st.Ranges = true, "", "n1", nil, []*quoratev1.RangeStatus{{Id: 0, Leader: "n1", Term: 3, Replicas: []string{"n1"}, Lag: proto.Int64(4)}}
	for _, id := range slices.Sorted(maps.Keys(f.nodes)) {
		n := f.nodes[id]
		st.Nodes = append(st.Nodes, proto.CloneOf(n))
		switch n.State {
		case quoratev1.NodeState_NODE_STATE_DRAINING:
			n.Leads = max(n.Leads-1, 0)
		case quoratev1.NodeState_NODE_STATE_LEAVING:
			st.Ranges[0].Removed, st.Ranges[0].Step = []string{id}, "remove "+id+": not planned as a voter"
			if n.Replicas -= 2; n.Replicas < 0 {
				delete(f.nodes, id)
			}
		}
	}
	return st
}

func (c *fakeCluster) ChangeCluster(_ context.Context, by string, req proto.Message) (proto.Message, error) {
	f := &c.members
	f.mu.Lock()
	defer f.mu.Unlock()
	switch r := req.(type) {
	case *quoratev1.GetPlanRequest:
		return f.plan(r), nil
	case *quoratev1.ChangeNodeRequest:
		return f.change(r)
	case *quoratev1.TransferLeadershipRequest:
		if r.From == "n9" {
			return nil, &membership.Error{Kind: membership.Missing, Text: `from: unknown node "n9"`}
		}
		res := &quoratev1.TransferLeadershipResponse{Moved: 2}
		if slices.Contains(r.Ranges, 7) {
			res = &quoratev1.TransferLeadershipResponse{Moved: 1, Faults: []string{"range 7: it has no leader now"}}
		}
		return res, nil
	case *quoratev1.CreateJoinTokenRequest:
		t := &quoratev1.JoinToken{Id: "5d1fa2c07b3e", UsesLeft: max(r.Uses, 1), By: by, CreatedAt: timestamppb.New(atTime), ExpiresAt: timestamppb.New(atTime.Add(r.Ttl.AsDuration()))}
		f.tokens = []*quoratev1.JoinToken{t}
		return &quoratev1.CreateJoinTokenResponse{Token: fakeToken, Info: t, Addresses: []string{"10.0.0.1:7412", "10.0.0.2:7412", "10.0.0.3:7412", "10.0.0.4:7412"}}, nil
	case *quoratev1.ListJoinTokensRequest:
		return &quoratev1.ListJoinTokensResponse{Tokens: f.tokens}, nil
	case *quoratev1.RevokeJoinTokenRequest:
		if len(f.tokens) == 0 || f.tokens[0].Id != r.Id {
			return nil, &membership.Error{Kind: membership.Missing, Text: fmt.Sprintf("unknown join token %q", r.Id)}
		}
		f.tokens = nil
		return &quoratev1.RevokeJoinTokenResponse{}, nil
	case *quoratev1.IssueCertificateRequest:
		return f.issue(r)
	case *quoratev1.RotateAuthorityRequest:
		return f.rotate(r)
	}
	return nil, errNoLeader{}
}

func (f *fakeMembers) plan(r *quoratev1.GetPlanRequest) *quoratev1.GetPlanResponse {
	res := &quoratev1.GetPlanResponse{Total: 3}
	if len(r.Without) > 0 {
		res.Groups = []*quoratev1.GroupPlan{
			{Group: "meta", Voters: []string{"n1", "n2"}, Wanted: []string{"n1"}, Steps: []string{"remove n2: not planned as a voter"}},
			{Group: "range-001", Voters: []string{"n2"}, Wanted: []string{"n3"}, Steps: []string{"add non-voter n3: it has nothing yet", "promote n3: it has caught up", "remove n2: not planned as a voter"}},
		}
	}
	return res
}

func (f *fakeMembers) change(r *quoratev1.ChangeNodeRequest) (*quoratev1.ChangeNodeResponse, error) {
	f.begin()
	n := f.nodes[r.Node]
	if n == nil {
		return nil, &membership.Error{Kind: membership.Missing, Text: fmt.Sprintf("unknown node %q", r.Node)}
	}
	switch r.Change {
	case quoratev1.NodeChange_NODE_CHANGE_DRAIN:
		n.State = quoratev1.NodeState_NODE_STATE_DRAINING
	case quoratev1.NodeChange_NODE_CHANGE_ACTIVATE:
		n.State, n.Leads = quoratev1.NodeState_NODE_STATE_ACTIVE, 2
	case quoratev1.NodeChange_NODE_CHANGE_REMOVE:
		if !r.Force {
			return nil, &membership.Error{Kind: membership.Forbidden, Text: fmt.Sprintf("node %q: is alive; use cluster leave, or --force", r.Node)}
		}
		n.State, n.Connected, n.Silent, n.Replicas = quoratev1.NodeState_NODE_STATE_LEAVING, false, durationpb.New(12*time.Second), 40
	default:
		n.State = quoratev1.NodeState_NODE_STATE_LEAVING
	}
	return &quoratev1.ChangeNodeResponse{State: n.State, Moves: 4}, nil
}

func (f *fakeMembers) authority() (*pki.CA, error) {
	var err error
	if f.ca == nil {
		f.ca, err = pki.NewCA("test", time.Now(), 24*time.Hour)
	}
	return f.ca, err
}

func (f *fakeMembers) issue(r *quoratev1.IssueCertificateRequest) (*quoratev1.IssueCertificateResponse, error) {
	ca, err := f.authority()
	if err != nil {
		return nil, err
	}
	cert, err := ca.Sign(r.Csr, pki.Identity{Cluster: "test", Kind: pki.Client, Name: r.Name}, nil, time.Now(), r.Ttl.AsDuration())
	if err != nil {
		return nil, err
	}
	pair, err := ca.Pair()
	return &quoratev1.IssueCertificateResponse{Certificate: cert, Trust: pair.CertPEM}, err
}

func (f *fakeMembers) rotate(r *quoratev1.RotateAuthorityRequest) (*quoratev1.RotateAuthorityResponse, error) {
	res := &quoratev1.RotateAuthorityResponse{Phase: "steady", Fingerprint: strings.Repeat("ab", 32)}
	switch {
	case r.Finish && f.rotation != "finishing":
		return nil, &membership.Error{Kind: membership.Forbidden, Text: "finish: the rotation cannot end yet: steady"}
	case r.Finish:
		f.rotation = ""
	case !r.Ask:
		f.rotation = "finishing"
	}
	if f.rotation != "" {
		res.Phase, res.WaitsFor = f.rotation, "an operator"
		now := time.Now()
		res.Seen = []*quoratev1.SeenCertificate{
			{Identity: "client:old", Authority: strings.Repeat("cd", 32), At: timestamppb.New(now.Add(-90 * time.Minute)), Node: "n1"},
			{Identity: "client:shop", Authority: strings.Repeat("cd", 32), At: timestamppb.New(now.Add(-time.Hour)), Node: "n1"},
			{Identity: "client:shop", Authority: strings.Repeat("cd", 32), At: timestamppb.New(now.Add(-2 * time.Hour)), Node: "n2"},
			{Identity: "client:shop", Authority: res.Fingerprint, At: timestamppb.New(now.Add(-time.Minute)), Node: "n2"},
			{Identity: "client:new", Authority: res.Fingerprint, At: timestamppb.New(now), Node: "n2"},
			{Identity: "node:n4", Authority: strings.Repeat("cd", 32)},
		}
	}
	return res, nil
}
