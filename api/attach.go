package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/attach"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// Bounds of attachments, in addition to the bounds in package attach.
const (
	// attachHelloWait is the time that a process has to send its hello.
	attachHelloWait = 5 * time.Second
	// attachStuck is the longest time that sending one message to a process may take.
	attachStuck = 5 * time.Second
	// attachLinger is the time that a process has for its last messages after the goodbye.
	attachLinger = 500 * time.Millisecond
	// maxAttachNamespaces is the largest number of namespaces that a process may name.
	maxAttachNamespaces = 1000
)

// MemberService attaches client processes, which decide checks themselves.
type MemberService struct {
	quoratev1.UnimplementedMemberServiceServer
	*core
	node attach.Host
}

// Attach serves one attachment. The calling goroutine sends; a second goroutine reads.
func (s *MemberService) Attach(stream quoratev1.MemberService_AttachServer) error {
	a := &attachment{MemberService: s, stream: stream, ctx: stream.Context(), read: make(chan error, 1), out: attach.NewOutbox()}
	go func() { a.read <- a.reads() }()
	return a.serve()
}

// attachment is one stream. Only the reading goroutine changes the fields below read; the node
// reads named through uses.
type attachment struct {
	*MemberService
	stream quoratev1.MemberService_AttachServer
	ctx    context.Context
	out    *attach.Outbox
	read   chan error // the result of reading; nil: the process has closed its side

	hello   *attach.Hello
	session attach.Session
	named   []string // namespaces; empty: all
}

type permitted struct {
	namespace  string
	permission rbac.Permission
}

// serve sends the messages of the outbox until either side ends the attachment.
func (a *attachment) serve() error {
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		err := <-a.read
		a.out.End("") // messages that wait are still sent
		ended <- err
		if err != nil {
			cancel()
		}
	}()
	err := unlessStuck(attachStuck, func(around func(func() error) error) error {
		for {
			m, err := a.out.Next(ctx)
			if m == nil {
				return err
			}
			if err := around(func() error { return a.stream.Send(m) }); err != nil {
				return err
			}
		}
	})
	switch {
	case errors.Is(err, attach.ErrSlow):
		return status.Error(codes.ResourceExhausted, err.Error())
	case err != nil && ctx.Err() == nil:
		return err
	}
	select {
	case err = <-ended:
	case <-time.After(attachLinger):
		err = nil
	}
	return err
}

// reads receives messages until the process closes its side, and returns the first error.
func (a *attachment) reads() error {
	if err := a.begin(); err != nil {
		return err
	}
	defer a.session.End()
	for {
		m, err := a.stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := a.receive(m); err != nil {
			return err
		}
	}
}

// begin receives the first message.
func (a *attachment) begin() error {
	late := time.AfterFunc(attachHelloWait, func() { a.out.End("the first message took too long") })
	defer late.Stop()
	m, err := a.stream.Recv()
	if err != nil {
		return &apierr.Error{Code: codes.Canceled, HTTP: http.StatusRequestTimeout, Reason: "NO_HELLO", Detail: "the stream ended before its first message"}
	}
	if !late.Stop() {
		return &apierr.Error{Code: codes.DeadlineExceeded, HTTP: http.StatusRequestTimeout, Reason: "NO_HELLO", Detail: "the first message took too long"}
	}
	h := m.GetHello()
	if h == nil {
		return apierr.Invalid("hello", "is missing; it must be the first message")
	}
	if err := a.greet(h); err != nil {
		return err
	}
	a.session, err = a.node.Attach(a.hello, a.out)
	return attachFault(err)
}

// greet validates the hello and the caller's permissions.
func (a *attachment) greet(h *quoratev1.ClientHello) error {
	if err := quota.CheckName("client", h.GetClient()); err != nil {
		return apierr.InvalidName("hello.client", err)
	}
	if h.GetIncarnation() == 0 {
		return apierr.Invalid("hello.incarnation", "0; must be above 0")
	}
	if h.GetAttachment() == 0 {
		return apierr.Invalid("hello.attachment", "0; attachments are numbered from 1")
	}
	if n := len(h.GetNamespaces()); n > maxAttachNamespaces {
		return apierr.Invalid("hello.namespaces", "%d; at most %d", n, maxAttachNamespaces)
	}
	for _, ns := range h.GetNamespaces() {
		if err := quota.CheckName("namespace", ns); err != nil {
			return apierr.InvalidName("hello.namespaces", err)
		}
		if !a.mayIn(a.ctx, rbac.Check, ns) {
			return a.denied(ns, rbac.Check)
		}
	}
	a.named = slices.Clone(h.GetNamespaces())
	slices.Sort(a.named)
	a.hello = &attach.Hello{Client: quota.NodeID(h.GetClient()), Incarnation: quota.Incarnation(h.GetIncarnation()), Attachment: quota.Term(h.GetAttachment())}
	a.hello.Owner = Owner(a.ctx)
	if v := CallOf(a.ctx); a.Guard != nil && v != nil {
		// Processes of two callers may have the same name.
		a.hello.Client = quota.NodeID(v.Caller.Identity + "/" + h.GetClient())
	}
	if len(a.named) > 0 || a.Guard != nil {
		a.hello.May = a.uses
	}
	if a.Guard != nil {
		a.hello.MayReport = a.mayReport
	}
	return nil
}

// uses reports whether the process gets the limits of a namespace.
func (a *attachment) uses(namespace string) bool {
	return a.names(namespace) && a.mayIn(a.ctx, rbac.Check, namespace)
}

func (a *attachment) names(namespace string) bool {
	if len(a.named) == 0 {
		return true
	}
	_, ok := slices.BinarySearch(a.named, namespace)
	return ok
}

func (a *attachment) denied(namespace string, p rbac.Permission) *apierr.Error {
	f := &apierr.Error{
		Code: codes.PermissionDenied, HTTP: http.StatusForbidden, Reason: "PERMISSION_DENIED",
		Meta: map[string]string{"permission": p.String(), "scope": string(rbac.Namespace(namespace))},
	}
	f.Detail = "the process has no permission " + p.String() + " in " + string(rbac.Namespace(namespace))
	if v := CallOf(a.ctx); v != nil {
		f.Meta["identity"] = v.Caller.Identity
	}
	return f
}

// receive handles one message.
func (a *attachment) receive(m *quoratev1.AttachRequest) error {
	switch b := m.GetBody().(type) {
	case *quoratev1.AttachRequest_Report:
		r, err := peerproto.ParseReport(a.hello.Client, b.Report)
		switch {
		case err != nil:
			return apierr.Invalid("report", "%v", err)
		case r.Term != a.hello.Attachment:
			return apierr.Invalid("report.term", "%d; the attachment is %d", r.Term, a.hello.Attachment)
		case r.Incarnation != a.hello.Incarnation:
			return apierr.Invalid("report.incarnation", "%d; that of the process is %d", r.Incarnation, a.hello.Incarnation)
		}
		if err := a.permit(r.Entries); err != nil {
			return err
		}
		a.session.Report(&r)
	case *quoratev1.AttachRequest_Settlement:
		s, err := a.settlement(b.Settlement)
		if err != nil {
			return err
		}
		a.session.Settle(s)
	case *quoratev1.AttachRequest_Refusals:
		return a.refused(b.Refusals.GetLimits())
	case *quoratev1.AttachRequest_Hello:
		return apierr.Invalid("hello", "was sent before; an attachment has one")
	default:
		return apierr.Invalid("body", "is missing, or of a later version; must be a report, a settlement or refusals")
	}
	return nil
}

// settlement validates a settlement: the use that an earlier attachment counted.
func (a *attachment) settlement(m *quoratev1.Settlement) (*attach.Settlement, error) {
	r, err := peerproto.ParseReport(a.hello.Client, m.GetReport())
	if err != nil {
		return nil, apierr.Invalid("settlement.report", "%v", err)
	}
	if err := quota.CheckName("node", m.GetNode()); err != nil {
		return nil, apierr.InvalidName("settlement.node", err)
	}
	if m.GetNodeIncarnation() == 0 {
		return nil, apierr.Invalid("settlement.node_incarnation", "0; must be above 0")
	}
	if n := m.GetAttachment(); n == 0 || n >= uint64(a.hello.Attachment) {
		return nil, apierr.Invalid("settlement.attachment", "%d; must be an earlier one than %d", n, a.hello.Attachment)
	}
	if n := len(m.GetAcknowledged()); n != len(r.Entries) {
		return nil, apierr.Invalid("settlement.acknowledged", "%d amounts for %d entries", n, len(r.Entries))
	}
	part, parts := m.GetPart(), m.GetParts()
	switch {
	case parts > attach.MaxParts:
		return nil, apierr.Invalid("settlement.parts", "%d; at most %d", parts, attach.MaxParts)
	case part == 0 || part > parts:
		return nil, apierr.Invalid("settlement.part", "%d of %d; must be 1 to %d", part, parts, max(1, parts))
	}
	r.Full = part == parts
	if err := a.permit(r.Entries); err != nil {
		return nil, err
	}
	r.Incarnation, r.Term = a.hello.Incarnation, quota.Term(m.GetAttachment())
	for i := range r.Entries {
		e, known := &r.Entries[i], quota.Units(m.Acknowledged[i])
		spent := e.Used.Plus(e.Overdrawn)
		if known < 0 || known > spent {
			return nil, apierr.Invalid("settlement.acknowledged", "%d of entry %d; must be 0 to what was used and overdrawn, %d", known, i, spent)
		}
		e.Unreported, e.Final = spent-known, true
	}
	return &attach.Settlement{Node: quota.NodeID(m.GetNode()), Incarnation: quota.Incarnation(m.GetNodeIncarnation()), Part: int(part), Parts: int(parts), Report: r}, nil
}

// refused validates and counts the requests that the process refused because a limit leaves
// nothing. It counts all entries or none.
func (a *attachment) refused(limits []*quoratev1.LimitRefusals) error {
	if n := len(limits); n > attach.MaxRefused {
		return apierr.Invalid("refusals.limits", "%d; at most %d", n, attach.MaxRefused)
	}
	known := map[permitted]bool{}
	for i, l := range limits {
		field := fmt.Sprintf("refusals.limits[%d].", i)
		if u := l.GetRefused(); u <= 0 || u > int64(quota.Most) {
			return apierr.Invalid(field+"refused", "%d; must be 1 to %d", u, int64(quota.Most))
		}
		if l.GetNamespace() == quota.Global.Namespace && l.GetLimit() == quota.Global.Limit {
			continue // see permit
		}
		if err := quota.CheckName("limit", l.GetLimit()); err != nil {
			return apierr.InvalidName(field+"limit", err)
		}
		if err := quota.CheckName("namespace", l.GetNamespace()); err != nil {
			return apierr.InvalidName(field+"namespace", err)
		}
		if !a.names(l.GetNamespace()) {
			return apierr.Invalid(field+"namespace", "%q is not a namespace of the attachment", l.GetNamespace())
		}
		if err := a.has(known, l.GetNamespace(), rbac.Check); err != nil {
			return err
		}
	}
	for _, l := range limits {
		a.session.Refused(quota.LimitName{Namespace: l.GetNamespace(), Limit: l.GetLimit()}, quota.Units(l.GetRefused()))
	}
	return nil
}

// permit returns an error if an entry is in a namespace that the process has not named or has no
// permission in.
func (a *attachment) permit(entries []quota.ReportEntry) error {
	known := map[permitted]bool{}
	for i := range entries {
		e := &entries[i]
		if e.Key.Namespace == quota.Global.Namespace { // the global default covers all namespaces
			if (e.Charged > 0 || e.Refunded > 0) && !a.mayReport(e.Key.Namespace) {
				return a.denied(e.Key.Namespace, rbac.Report)
			}
			continue
		}
		if !a.names(e.Key.Namespace) {
			return apierr.Invalid("report", "entries[%d].namespace: %q is not a namespace of the attachment", i, e.Key.Namespace)
		}
		if err := a.has(known, e.Key.Namespace, rbac.Check); err != nil {
			return err
		}
		if e.Charged > 0 || e.Refunded > 0 {
			if err := a.has(known, e.Key.Namespace, rbac.Report); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayReport reports whether the process may report use in a namespace; for the global default, which covers all
// namespaces, whether it may in any.
func (a *attachment) mayReport(namespace string) bool {
	if namespace != quota.Global.Namespace {
		return a.mayIn(a.ctx, rbac.Report, namespace)
	}
	v := CallOf(a.ctx)
	return a.Guard == nil || v != nil && a.Guard.Somewhere(v.Caller, rbac.Report)
}

// has returns an error if the process lacks a permission in a namespace. known are the permissions
// that it has shown for the same message, in which most entries are of few namespaces.
func (a *attachment) has(known map[permitted]bool, namespace string, p rbac.Permission) error {
	k := permitted{namespace, p}
	if a.Guard == nil || known[k] {
		return nil
	}
	if !a.mayIn(a.ctx, p, namespace) {
		return a.denied(namespace, p)
	}
	known[k] = true
	return nil
}

// attachFault maps an error of an attachment to an API error; nil stays nil.
func attachFault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, attach.ErrFull), errors.Is(err, attach.ErrShare):
		return &apierr.Error{Code: codes.ResourceExhausted, HTTP: http.StatusServiceUnavailable, Reason: "TOO_MANY_CLIENTS", Detail: err.Error()}
	case errors.Is(err, attach.ErrStopping):
		return &apierr.Error{Code: codes.Unavailable, HTTP: http.StatusServiceUnavailable, Reason: "STOPPING", Detail: err.Error()}
	case errors.Is(err, attach.ErrStale):
		return &apierr.Error{Code: codes.FailedPrecondition, HTTP: http.StatusConflict, Reason: "STALE_ATTACHMENT", Detail: err.Error()}
	}
	return &apierr.Error{Code: codes.Internal, HTTP: http.StatusInternalServerError, Reason: "INTERNAL", Detail: err.Error()}
}
