package rest

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/attach"
	"github.com/quorate/quorate/internal/quota"
)

// fakeHost accepts attachments and records what it receives.
type fakeHost struct {
	*apitest.Node
	err error

	mu      sync.Mutex
	hello   *attach.Hello
	out     *attach.Outbox
	reports []quota.Report
	settled []attach.Settlement
	refused []string
	ended   chan struct{}
}

func newFakeHost(t testing.TB) *fakeHost {
	return &fakeHost{Node: apitest.New(t), ended: make(chan struct{})}
}

func (h *fakeHost) Attach(hello *attach.Hello, out *attach.Outbox) (attach.Session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return nil, h.err
	}
	h.hello, h.out = hello, out
	out.Put(&quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Hello{Hello: &quoratev1.NodeHello{Node: "n1"}}})
	return (*fakeAttached)(h), nil
}

type fakeAttached fakeHost

func (s *fakeAttached) Report(r *quota.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports = append(s.reports, *r)
	s.out.Put(&quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Grant{Grant: &peerv1.Grant{Term: uint64(r.Term)}}})
}

func (s *fakeAttached) Refused(l quota.LimitName, u quota.Units) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = append(s.refused, fmt.Sprintf("%s %d", l, u))
}

func (s *fakeAttached) Settle(m *attach.Settlement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = append(s.settled, *m)
	s.out.Put(&quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Settled{Settled: &quoratev1.Settled{Attachment: uint64(m.Report.Term)}}})
}

func (s *fakeAttached) End() { close(s.ended) }

func clientHello() *quoratev1.ClientHello {
	return &quoratev1.ClientHello{Client: "svc", Incarnation: 5, Attachment: 3}
}

func clientReport() *peerv1.Report {
	return &peerv1.Report{Term: 3, Seq: 1, Incarnation: 5, Entries: []*peerv1.ReportEntry{{Namespace: "web", Limit: "login", Key: "k", Epoch: 1, Used: 7}}}
}

func clientSettlement() *quoratev1.Settlement {
	r := clientReport()
	r.Term, r.Full = 2, true
	return &quoratev1.Settlement{Node: "n2", NodeIncarnation: 9, Attachment: 2, Part: 1, Parts: 1, Report: r, Acknowledged: []int64{3}}
}

func asks(body any) *quoratev1.AttachRequest {
	switch b := body.(type) {
	case *quoratev1.ClientHello:
		return &quoratev1.AttachRequest{Body: &quoratev1.AttachRequest_Hello{Hello: b}}
	case *peerv1.Report:
		return &quoratev1.AttachRequest{Body: &quoratev1.AttachRequest_Report{Report: b}}
	case []*quoratev1.LimitRefusals:
		return &quoratev1.AttachRequest{Body: &quoratev1.AttachRequest_Refusals{Refusals: &quoratev1.Refusals{Limits: b}}}
	case *quoratev1.Settlement:
		return &quoratev1.AttachRequest{Body: &quoratev1.AttachRequest_Settlement{Settlement: b}}
	}
	return &quoratev1.AttachRequest{}
}

// TestAttach checks that messages of a process reach the node and messages of the node reach the
// process, and that a goodbye ends the stream.
func TestAttach(t *testing.T) {
	h := newFakeHost(t)
	stream, err := quoratev1.NewMemberServiceClient(dialGRPC(t, h, api.Options{})).Attach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hello := clientHello()
	hello.Namespaces = []string{"web", "api"}
	refusals := []*quoratev1.LimitRefusals{{Namespace: "web", Limit: "login", Refused: 7}, {Namespace: quota.Global.Namespace, Limit: quota.Global.Limit, Refused: 1}}
	for _, m := range []any{hello, refusals, clientReport(), clientSettlement()} {
		if err := stream.Send(asks(m)); err != nil {
			t.Fatal(err)
		}
	}
	for _, is := range []func(*quoratev1.AttachResponse) bool{
		func(m *quoratev1.AttachResponse) bool { return m.GetHello().GetNode() == "n1" },
		func(m *quoratev1.AttachResponse) bool { return m.GetGrant().GetTerm() == 3 },
		func(m *quoratev1.AttachResponse) bool { return m.GetSettled().GetAttachment() == 2 },
	} {
		if m, err := stream.Recv(); err != nil || !is(m) {
			t.Fatalf("got %v, %v", m, err)
		}
	}
	h.mu.Lock()
	if h.hello.Client != "svc" || !h.hello.May("web") || h.hello.May("other") {
		t.Errorf("hello %+v", h.hello)
	}
	if got := strings.Join(h.refused, ", "); got != "web/login 7, "+quota.Global.String()+" 1" {
		t.Errorf("refused: %s", got)
	}
	if r := h.reports[0]; r.From != "svc" || r.Entries[0].Used != 7 {
		t.Errorf("report %+v", r)
	}
	if s := h.settled[0]; s.Node != "n2" || s.Incarnation != 9 || s.Report.Term != 2 || !s.Report.Full || s.Report.Entries[0].Unreported != 4 || !s.Report.Entries[0].Final {
		t.Errorf("settlement %+v", s)
	}
	h.mu.Unlock()
	h.out.End("stops")
	if m, err := stream.Recv(); err != nil || m.GetGoodbye().GetReason() != "stops" {
		t.Errorf("got %v, %v", m, err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the goodbye: %v", err)
	}
	select {
	case <-h.ended:
	case <-time.After(time.Minute):
		t.Error("the node was not told that the stream is over")
	}
}

// TestAttachParts checks that a settlement in parts is complete with the part numbered last.
func TestAttachParts(t *testing.T) {
	part := func(seq uint64, full bool, part, parts uint32) *quoratev1.Settlement {
		s := clientSettlement()
		s.Report.Seq, s.Report.Full, s.Part, s.Parts = seq, full, part, parts
		return s
	}
	for what, parts := range map[string][2]*quoratev1.Settlement{
		"in order":          {part(1, false, 1, 2), part(2, true, 2, 2)},
		"full without need": {part(1, true, 1, 2), part(2, false, 2, 2)}, // Part decides which is the last
	} {
		h := newFakeHost(t)
		stream, err := quoratev1.NewMemberServiceClient(dialGRPC(t, h, api.Options{})).Attach(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []any{clientHello(), parts[0], parts[1]} {
			if err := stream.Send(asks(m)); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
		}
		h.mu.Lock()
		if len(h.settled) != 2 || h.settled[0].Report.Full || !h.settled[1].Report.Full {
			t.Errorf("%s: parts came to the node as %+v; want the second to be the last", what, h.settled)
		}
		h.mu.Unlock()
	}
}

// TestAttachmentsHaveOwners checks that an attachment is charged to the caller's identity, or to its address if no identity
// is proven.
func TestAttachmentsHaveOwners(t *testing.T) {
	s, _ := revocable(t, "token")
	for want, opts := range map[string]api.Options{"token:ann": s.opts, "address:bufconn": {}} {
		h := newFakeHost(t)
		stream, err := quoratev1.NewMemberServiceClient(dialService(t, api.New(securedHost{s, h}, opts), nil)).Attach(s.as(t.Context(), "ann"))
		if err == nil {
			err = stream.Send(asks(clientHello()))
		}
		if err == nil {
			_, err = stream.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		h.mu.Lock()
		if h.hello.Owner != want {
			t.Errorf("charged to %q; want %q", h.hello.Owner, want)
		}
		h.mu.Unlock()
	}
}

// TestAttachRefused checks that every forbidden message ends the stream, with an error that names
// the fault.
func TestAttachRefused(t *testing.T) {
	bent := func(bend func(*quoratev1.ClientHello)) *quoratev1.ClientHello { h := clientHello(); bend(h); return h }
	report := func(bend func(*peerv1.Report)) *peerv1.Report { r := clientReport(); bend(r); return r }
	settle := func(bend func(*quoratev1.Settlement)) *quoratev1.Settlement {
		s := clientSettlement()
		bend(s)
		return s
	}
	web := bent(func(h *quoratev1.ClientHello) { h.Namespaces = []string{"api"} })
	for want, messages := range map[string][]any{
		"hello: is missing":                     {clientReport()},
		"hello: was sent before":                {clientHello(), clientHello()},
		"body: is missing":                      {clientHello(), nil},
		"hello.client: ":                        {bent(func(h *quoratev1.ClientHello) { h.Client = "a b" })},
		"hello.incarnation: 0":                  {bent(func(h *quoratev1.ClientHello) { h.Incarnation = 0 })},
		"hello.attachment: 0":                   {bent(func(h *quoratev1.ClientHello) { h.Attachment = 0 })},
		"hello.namespaces: ":                    {bent(func(h *quoratev1.ClientHello) { h.Namespaces = []string{""} })},
		"report: entries[0].used: -1":           {clientHello(), report(func(r *peerv1.Report) { r.Entries[0].Used = -1 })},
		"report.term: 4":                        {clientHello(), report(func(r *peerv1.Report) { r.Term = 4 })},
		"report.incarnation: 6":                 {clientHello(), report(func(r *peerv1.Report) { r.Incarnation = 6 })},
		"report: entries[0].namespace: \"web\"": {web, clientReport()},
		"refusals.limits: 1001":                 {clientHello(), make([]*quoratev1.LimitRefusals, 1001)},
		"refusals.limits[1].refused: 0":         {clientHello(), []*quoratev1.LimitRefusals{refusal("web", "login", 1), refusal("web", "login", 0)}},
		"refusals.limits[0].refused: 92":        {clientHello(), []*quoratev1.LimitRefusals{refusal("web", "login", math.MaxInt64)}},
		"refusals.limits[0].limit: ":            {clientHello(), []*quoratev1.LimitRefusals{refusal("web", "", 1)}},
		"refusals.limits[0].namespace: \"web\"": {web, []*quoratev1.LimitRefusals{refusal("web", "login", 1)}},
		"settlement.report: ":                   {clientHello(), settle(func(s *quoratev1.Settlement) { s.Report = nil })},
		"settlement.node: ":                     {clientHello(), settle(func(s *quoratev1.Settlement) { s.Node = "" })},
		"settlement.node_incarnation: 0":        {clientHello(), settle(func(s *quoratev1.Settlement) { s.NodeIncarnation = 0 })},
		"settlement.attachment: 3":              {clientHello(), settle(func(s *quoratev1.Settlement) { s.Attachment = 3 })},
		"settlement.acknowledged: 0 amounts":    {clientHello(), settle(func(s *quoratev1.Settlement) { s.Acknowledged = nil })},
		"settlement.parts: 25":                  {clientHello(), settle(func(s *quoratev1.Settlement) { s.Part, s.Parts = 1, 25 })},
		"settlement.part: 3 of 2":               {clientHello(), settle(func(s *quoratev1.Settlement) { s.Part, s.Parts = 3, 2 })},
		"settlement.part: 0 of 2":               {clientHello(), settle(func(s *quoratev1.Settlement) { s.Part, s.Parts = 0, 2 })},
		"settlement.acknowledged: 8 of":         {clientHello(), settle(func(s *quoratev1.Settlement) { s.Acknowledged[0] = 8 })},
	} {
		attachFails(t, newFakeHost(t), codes.InvalidArgument, want, messages...)
	}
	for code, err := range map[codes.Code]error{
		codes.ResourceExhausted: attach.ErrFull, codes.Unavailable: attach.ErrStopping, codes.FailedPrecondition: attach.ErrStale,
	} {
		h := newFakeHost(t)
		h.err = err
		attachFails(t, h, code, err.Error(), clientHello())
	}
}

func refusal(namespace, limit string, u int64) *quoratev1.LimitRefusals {
	return &quoratev1.LimitRefusals{Namespace: namespace, Limit: limit, Refused: u}
}

func attachFails(t *testing.T, n api.Node, code codes.Code, want string, messages ...any) {
	t.Helper()
	stream, err := quoratev1.NewMemberServiceClient(dialGRPC(t, n, api.Options{})).Attach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if stream.Send(asks(m)) != nil {
			break
		}
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != code || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v; want %v, %q", err, code, want)
	}
}
