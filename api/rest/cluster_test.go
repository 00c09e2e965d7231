package rest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// operated is a node that answers calls about the cluster as the test defines, and records them.
type operated struct {
	*apitest.Node
	res proto.Message
	err error
	by  string
	req proto.Message
}

var _ api.Operator = (*operated)(nil)

func (o *operated) ChangeCluster(_ context.Context, by string, req proto.Message) (proto.Message, error) {
	o.by, o.req = by, req
	return o.res, o.err
}

func (o *operated) FullStatus(context.Context) *quoratev1.GetStatusResponse {
	st := o.Status()
	st.Ranges[0].Step, st.Ranges[0].Lag = "add n3: it is missing", proto.Int64(7)
	return st
}

// clusterCalls has one call per route, the request that the node should get, and its answer.
var clusterCalls = []struct {
	method, path, body string
	asked, res         proto.Message
	want               string
}{
	{
		"POST", "/v1/cluster/join", `{"token":"quorate1.a.b.c","node":"n4","peer_address":"10.0.0.4:7403","csr":"AQI=","join_id":"AwQ=","level":1}`,
		&quoratev1.JoinRequest{Token: "quorate1.a.b.c", Node: "n4", PeerAddress: "10.0.0.4:7403", Csr: []byte{1, 2}, JoinId: []byte{3, 4}, Level: 1},
		&quoratev1.JoinResponse{Cluster: "c", Nodes: map[string]string{"n4": "10.0.0.4:7403", "n1": "10.0.0.1:7403"}, Certificate: []byte("PEM")},
		`"nodes":{"n1":"10.0.0.1:7403","n4":"10.0.0.4:7403"},"certificate":"UEVN"`,
	},
	{
		"POST", "/v1/cluster/join-tokens", `{"ttl":90,"uses":2}`,
		&quoratev1.CreateJoinTokenRequest{Ttl: durationpb.New(90 * time.Second), Uses: 2},
		&quoratev1.CreateJoinTokenResponse{Token: "secret", Info: &quoratev1.JoinToken{Id: "a", ExpiresAt: timestamppb.New(time.Unix(1_800_000_000, 0))}},
		`{"token":"secret","info":{"id":"a","expires_at":"2027-01-15T08:00:00Z"`,
	},
	{"GET", "/v1/cluster/join-tokens", "", &quoratev1.ListJoinTokensRequest{}, &quoratev1.ListJoinTokensResponse{}, `{"tokens":[]}`},
	{"DELETE", "/v1/cluster/join-tokens?id=a", "", &quoratev1.RevokeJoinTokenRequest{Id: "a"}, &quoratev1.RevokeJoinTokenResponse{}, `{}`},
	{
		"GET", "/v1/cluster/plan?without=n2,n3", "", &quoratev1.GetPlanRequest{Without: []string{"n2", "n3"}},
		&quoratev1.GetPlanResponse{Total: 17, Groups: []*quoratev1.GroupPlan{{Group: "range-007", Voters: []string{"n1"}, Wanted: []string{"n2"}, Steps: []string{"add n2: x"}}}},
		`{"groups":[{"group":"range-007","voters":["n1"],"wanted":["n2"],"steps":["add n2: x"]}],"total":17}`,
	},
	{
		"POST", "/v1/cluster/nodes:change", `{"node":"n2","change":"remove","force":true}`,
		&quoratev1.ChangeNodeRequest{Node: "n2", Change: quoratev1.NodeChange_NODE_CHANGE_REMOVE, Force: true},
		&quoratev1.ChangeNodeResponse{State: quoratev1.NodeState_NODE_STATE_LEAVING, Moves: 9}, `{"state":"leaving","moves":9,"warning":""}`,
	},
	{
		"POST", "/v1/cluster/nodes:change", `{"change":"drain"}`, // the node that answers the call
		&quoratev1.ChangeNodeRequest{Node: "n1", Change: quoratev1.NodeChange_NODE_CHANGE_DRAIN},
		&quoratev1.ChangeNodeResponse{State: quoratev1.NodeState_NODE_STATE_DRAINING}, `{"state":"draining","moves":0,"warning":""}`,
	},
	{
		"POST", "/v1/cluster/ranges:transfer", `{"ranges":[3,4],"from":"n1","to":"n2"}`,
		&quoratev1.TransferLeadershipRequest{Ranges: []uint32{3, 4}, From: "n1", To: "n2"},
		&quoratev1.TransferLeadershipResponse{Moved: 1, Faults: []string{"range 4: no"}}, `{"moved":1,"faults":["range 4: no"]}`,
	},
	{
		"POST", "/v1/cluster/certificates", `{"csr":"AQI=","name":"ci","ttl":3600}`,
		&quoratev1.IssueCertificateRequest{Csr: []byte{1, 2}, Name: "ci", Ttl: durationpb.New(time.Hour)},
		&quoratev1.IssueCertificateResponse{Certificate: []byte("PEM"), Trust: []byte("CA")}, `{"certificate":"UEVN","trust":"Q0E="}`,
	},
	{
		"POST", "/v1/cluster/authority:rotate", `{"finish":true}`, &quoratev1.RotateAuthorityRequest{Finish: true},
		&quoratev1.RotateAuthorityResponse{Phase: "steady", Fingerprint: "ab", Trust: []byte("CA")},
		`{"phase":"steady","waits_for":"","fingerprint":"ab","trust":"Q0E=","seen":[],"lost_join_tokens":0}`,
	},
}

func TestClusterRoutes(t *testing.T) {
	for _, c := range clusterCalls {
		n := &operated{Node: apitest.New(t), res: c.res}
		a := call(t, c.method, serveHTTP(t, n).URL+c.path, c.body)
		if a.code != 200 || !strings.Contains(a.body, c.want) {
			t.Errorf("%s %s: %d %s; want %s", c.method, c.path, a.code, a.body, c.want)
		}
		if !proto.Equal(n.req, c.asked) || n.by != api.Anonymous {
			t.Errorf("%s %s: the node was asked by %q for %v, not %v", c.method, c.path, n.by, n.req, c.asked)
		}
	}
}

// TestClusterOverGRPC checks that every call reaches the node, with the caller's identity.
func TestClusterOverGRPC(t *testing.T) {
	for _, c := range clusterCalls {
		n := &operated{Node: apitest.New(t), res: c.res}
		name := strings.TrimSuffix(string(c.asked.ProtoReflect().Descriptor().Name()), "Request")
		ctx := metadata.AppendToOutgoingContext(t.Context(), "quorate-user", "user:ops")
		res := c.res.ProtoReflect().New().Interface()
		if err := dialGRPC(t, n, api.Options{}).Invoke(ctx, "/quorate.v1.ClusterService/"+name, c.asked, res); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !proto.Equal(n.req, c.asked) || !proto.Equal(res, c.res) || n.by != "user:ops" {
			t.Errorf("%s: the node was asked by %q for %v and answered %v", name, n.by, n.req, res)
		}
	}
}

// TestClusterRefusals checks that a refusal keeps its kind on both wires and names its field.
func TestClusterRefusals(t *testing.T) {
	refuse := func(c codes.Code, text string) error { return status.Error(c, text) }
	for _, c := range []struct {
		err          error
		http         int
		code         codes.Code
		reason, want string
	}{
		{refuse(codes.InvalidArgument, `change: 9; must be drain`), 400, codes.InvalidArgument, "INVALID_FIELD", `"field":"change"`},
		{refuse(codes.PermissionDenied, `join token a: its secret is wrong`), 403, codes.PermissionDenied, "JOIN_DENIED", `"detail":"join token a: its secret is wrong"`},
		{refuse(codes.AlreadyExists, `node n4: there is one`), 409, codes.AlreadyExists, "EXISTS", `node n4`},
		{refuse(codes.NotFound, `unknown node "n9"`), 404, codes.NotFound, "NOT_THERE", `n9`},
		{refuse(codes.FailedPrecondition, `node "n1": answers; let it leave`), 409, codes.FailedPrecondition, "NOT_NOW", `let it leave`},
		{refuse(codes.ResourceExhausted, `256 members`), 503, codes.ResourceExhausted, "CLUSTER_FULL", `256`},
		{fmt.Errorf("meta: %w", apitest.NoLeader{}), 503, codes.Unavailable, "NO_LEADER", `repeat this call`},
		{context.DeadlineExceeded, 504, codes.DeadlineExceeded, "TOO_SLOW", `try again`},
		{fmt.Errorf("broken"), 500, codes.Internal, "INTERNAL", `broken`},
	} {
		n := &operated{Node: apitest.New(t), err: c.err}
		a := call(t, "POST", serveHTTP(t, n).URL+"/v1/cluster/nodes:change", `{"node":"n1","change":"leave"}`)
		if a.code != c.http || a.fields["reason"] != c.reason || !strings.Contains(strings.ReplaceAll(a.body, `\"`, ""), strings.ReplaceAll(c.want, `\"`, "")) {
			t.Errorf("%v: %d %s", c.err, a.code, a.body)
		}
		_, err := quoratev1.NewClusterServiceClient(dialGRPC(t, n, api.Options{})).ChangeNode(t.Context(), &quoratev1.ChangeNodeRequest{Node: "n1"})
		if status.Code(err) != c.code {
			t.Errorf("%v: over gRPC %v", c.err, err)
		}
	}
	n := &operated{Node: apitest.New(t), res: &quoratev1.GetPlanResponse{}} // the answer of another call
	if a := call(t, "GET", serveHTTP(t, n).URL+"/v1/cluster/join-tokens", ""); a.code != 500 {
		t.Errorf("%d %s", a.code, a.body)
	}
}

// TestClusterBounds checks that fields that are too long do not reach the node.
func TestClusterBounds(t *testing.T) {
	long := strings.Repeat("x", 2000)
	var steps []step
	n := &operated{Node: apitest.New(t)}
	for _, c := range [][4]string{
		{"POST", "/v1/cluster/join", `{"node":"n4","token":"` + long + `"}`, "token: is 2000 bytes; at most 512"},
		{"POST", "/v1/cluster/join", `{"node":"n4","peer_address":"` + long + `"}`, "peer_address: is 2000 bytes; at most 261"},
		{"POST", "/v1/cluster/join", `{"node":"n4","join_id":"` + long + `"}`, "join_id: is 1500 bytes; at most 64"},
		{"POST", "/v1/cluster/join", `{"node":"n4","csr":"no!"}`, "csr: is not base64"},
		{"POST", "/v1/cluster/join", `{}`, "node: "},
		{"POST", "/v1/cluster/join", `{"node":"a b"}`, "node: "},
		{"POST", "/v1/cluster/nodes:change", `{"node":"` + long + `"}`, "node: is 2000 bytes"},
		{"POST", "/v1/cluster/nodes:change", `{"change":"kill"}`, "must be one of drain, activate, leave, remove"},
		{"POST", "/v1/cluster/ranges:transfer", `{"to":"` + long + `"}`, "to: is 2000 bytes"},
		{"POST", "/v1/cluster/certificates", `{"name":"` + long + `"}`, "name: is 2000 bytes"},
		{"POST", "/v1/cluster/authority:rotate", `{"ask":true,"finish":true}`, "finish: is set, and so is ask"},
		{"GET", "/v1/cluster/plan?without=" + strings.Repeat("a,", 300), "", "without: has 301 nodes; at most 256"},
		{"DELETE", "/v1/cluster/join-tokens", "", "id: is empty"},
		{"DELETE", "/v1/cluster/join-tokens?id=" + long, "", "id: is 2000 bytes"},
	} {
		steps = append(steps, step{c[0], c[1], c[2], http.StatusBadRequest, c[3], ""})
	}
	walk(t, n, steps)
	if n.req != nil {
		t.Errorf("the node was asked for %v", n.req)
	}
}

func TestFullStatus(t *testing.T) {
	n := &operated{Node: apitest.New(t)}
	a := call(t, "GET", serveHTTP(t, n).URL+"/v1/status", "")
	if !strings.Contains(a.body, `"step":"add n3: it is missing","lag":7}`) {
		t.Error(a.body)
	}
}

// TestJSONOfProtos checks that JSON and queries in the form of protobuf libraries are accepted and
// mean the same.
func TestJSONOfProtos(t *testing.T) {
	for _, c := range []struct {
		method, path, body string
		asked              proto.Message
		res                proto.Message
	}{
		{
			"POST", "/v1/cluster/nodes:change", `{"node":"n1","change":"NODE_CHANGE_LEAVE"}`,
			&quoratev1.ChangeNodeRequest{Node: "n1", Change: quoratev1.NodeChange_NODE_CHANGE_LEAVE}, &quoratev1.ChangeNodeResponse{},
		},
		{
			"POST", "/v1/cluster/join", `{"node":"n9","peerAddress":"h:1","grpcAddress":"h:2","http_address":"h:3","joinId":"AQI="}`,
			&quoratev1.JoinRequest{Node: "n9", PeerAddress: "h:1", GrpcAddress: "h:2", HttpAddress: "h:3", JoinId: []byte{1, 2}}, &quoratev1.JoinResponse{},
		},
	} {
		n := &operated{Node: apitest.New(t), res: c.res}
		if a := call(t, c.method, serveHTTP(t, n).URL+c.path, c.body); a.code != 200 || !proto.Equal(n.req, c.asked) {
			t.Errorf("%s: %d %s; the node was asked for %v", c.body, a.code, a.body, n.req)
		}
	}
	url := serveHTTP(t, apitest.New(t)).URL + "/v1"
	for query, want := range map[string]int{
		"dryRun=true&expectedVersion=7": 200,
		"dryRun=true&expectedVersion=6": 409,
		"dryRun=true&dry_run=true":      400,
		"dryrun=true":                   400,
	} {
		if a := call(t, "PUT", url+"/limits?"+query, "web/a 1/s 1"); a.code != want {
			t.Errorf("%s: %d %s, want %d", query, a.code, a.body, want)
		}
	}
	for body, want := range map[string]int{
		`{"namespace":"web","limit":"login","key":"k","maxWait":0.5}`:            200,
		`{"namespace":"web","limit":"login","key":"k","maxWait":1,"max_wait":1}`: 400,
		`{"namespace":"web","limit":"login","key":"k","cost":1}`:                 200,
		`{"namespace":"web","limit":"login","key":"k","maxwait":1}`:              400,
		`{"namespace":"web","limit":"login","key":"k","max_Wait":1}`:             400,
	} {
		a := call(t, "POST", url+"/allow", body)
		if a.code != want {
			t.Errorf("%s: %d %s, want %d", body, a.code, a.body, want)
		}
	}
}
