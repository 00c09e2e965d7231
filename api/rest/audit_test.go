package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apijson"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/audit"
	"github.com/quorate/quorate/internal/rbac"
)

// lostAnswers carries out each change, and answers that the outcome is unknown.
type lostAnswers struct{ *secured }

func (n lostAnswers) SetBinding(ctx context.Context, b rbac.Binding) (bool, error) {
	_, _ = n.secured.SetBinding(ctx, b)
	return false, context.DeadlineExceeded
}

func (lostAnswers) Backup(_ context.Context, w io.Writer, _ func(done, total int)) error {
	_, _ = w.Write(make([]byte, 2*api.BackupPiece))
	return errors.New("a node was lost")
}

// audited gives the server an audit log, and returns its path.
func (s *secured) audited(t *testing.T) (path string) {
	path = t.TempDir() + "/audit.log"
	log, err := audit.Open(audit.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	s.opts.Audit = log
	return path
}

// TestAuditOfLostAnswers checks that the audit log has a call which may have changed something
// among the changes, however many failed calls of the same caller were dropped before it.
func TestAuditOfLostAnswers(t *testing.T) {
	s := newSecured(t, everyRole())
	path := s.audited(t)
	n := lostAnswers{s}
	conn, h := dialGRPC(t, n, s.opts), New(api.New(n, s.opts), Options{}).Handler
	ctx, sec := s.as(t.Context(), "admin"), quoratev1.NewSecurityServiceClient(conn)
	for range 30 {
		_, _ = sec.RevokeToken(ctx, &quoratev1.RevokeTokenRequest{})
		s.do(h, "admin", "PUT", "/v1/bindings", `{}`)
		s.do(h, "", "POST", "/v1/cluster/join", `{}`)
	}
	_, err := sec.SetBinding(ctx, &quoratev1.SetBindingRequest{Binding: &quoratev1.Binding{Identity: "user:mallory", Role: "admin"}})
	if status.Code(err) != codes.DeadlineExceeded {
		t.Fatal(err)
	}
	s.do(h, "admin", "PUT", "/v1/bindings", `{"binding":{"identity":"user:eve","role":"admin"}}`)
	stream, err := quoratev1.NewBackupServiceClient(conn).Backup(ctx, &quoratev1.BackupRequest{})
	for err == nil {
		_, err = stream.Recv()
	}
	s.do(h, "admin", "GET", "/v1/backup", "")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	want := []string{"user:mallory", "user:eve", "a node was lost", "a node was lost"}
	if len(lines) != len(want) {
		t.Fatalf("%d changes; want %d:\n%s", len(lines), len(want), data)
	}
	for i, text := range want {
		if !strings.Contains(lines[i], text) || !strings.Contains(lines[i], `"result":"failed"`) {
			t.Errorf("line %d has no %s, failed: %s", i, text, lines[i])
		}
	}
}

// TestDenialIsAudited checks that the audit log says of a denied call over HTTP which permission is
// missing, whichever way its request is read.
func TestDenialIsAudited(t *testing.T) {
	s := newSecured(t, map[string]rbac.Binding{"web-only": {Permissions: []string{"check", "limits.write", "rates.read"}, Scope: rbac.Namespace("web")}})
	path := s.audited(t)
	h := s.handler()
	calls := [][3]string{
		{"DELETE", "/v1/limits/other/x", ""},
		{"DELETE", "/v1/overrides?namespace=other&limit=x&key=k", ""},
		{"GET", "/v1/rates/watch?namespace=other", ""},
		{"POST", "/v1/allow", `{"namespace":"other","limit":"x","key":"k"}`},
	}
	for _, call := range calls {
		if w := s.do(h, "web-only", call[0], call[1], call[2]); w.Code != http.StatusForbidden {
			t.Errorf("%s %s: %d; want 403: %s", call[0], call[1], w.Code, w.Body)
		}
	}
	data, err := os.ReadFile(audit.AttemptsPath(path))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) != len(calls) {
		t.Fatalf("%d entries; want %d:\n%s", len(lines), len(calls), data)
	}
	for i, line := range lines {
		if !strings.Contains(line, `"code":"PERMISSION_DENIED"`) || !strings.Contains(line, `in namespace \"other\"`) {
			t.Errorf("%v: %s; want the missing permission and its namespace", calls[i], line)
		}
	}
}

// TestAuditOfGRPC checks that an entry has the caller's id of the request, over gRPC as over HTTP.
func TestAuditOfGRPC(t *testing.T) {
	s := newSecured(t, everyRole())
	path := s.audited(t)
	conn := s.dial(t)
	set := func(who, id string) {
		ctx := metadata.AppendToOutgoingContext(s.as(t.Context(), who), "x-request-id", id)
		_, _ = quoratev1.NewSecurityServiceClient(conn).SetBinding(ctx, &quoratev1.SetBindingRequest{Binding: &quoratev1.Binding{Identity: "user:ann", Role: "checker"}})
	}
	set("admin", "changed")
	set("checker", "denied")
	for file, want := range map[string]string{path: "changed", audit.AttemptsPath(path): "denied"} {
		data, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(data), `"request_id":"`+want+`"`) {
			t.Errorf("no request %s in %s, %v", want, data, err)
		}
	}
}

// TestAuditOfNothingApplied checks that operations on accounts of which none was applied are no change in the audit log,
// over gRPC as over HTTP.
func TestAuditOfNothingApplied(t *testing.T) {
	s := newSecured(t, everyRole())
	path := s.audited(t)
	s.Accounts.Outcome = account.Outcome{Code: account.Failed, Results: []account.Result{{Status: 3}}}
	conn, h := s.both(t)
	if w := s.do(h, "admin", "POST", "/v1/admin/accounts:apply", `{"ops":[`+buildOp+`]}`); w.Code != http.StatusConflict {
		t.Errorf("%d %s; want 409", w.Code, w.Body)
	}
	req := &quoratev1.ApplyOpsRequest{}
	if err := apijson.Decode([]byte(`{"ops":[`+buildOp+`]}`), req, ""); err != nil {
		t.Fatal(err)
	}
	res, err := quoratev1.NewAccountAdminServiceClient(conn).ApplyOps(s.as(t.Context(), "admin"), req)
	if err != nil || res.Applied {
		t.Errorf("%v, %v; want an answer that nothing was applied", res, err)
	}
	data, err := os.ReadFile(audit.AttemptsPath(path))
	if err != nil || strings.Count(string(data), `"result":"failed","code":"NOT_APPLIED"`) != 2 {
		t.Errorf("%s, %v; want two entries that failed", data, err)
	}
	if done, err := os.ReadFile(path); err != nil || len(done) > 0 {
		t.Errorf("%s, %v; want no change", done, err)
	}
}

// TestAuditWithoutTokens checks that a token that was given in the wrong place is neither in the answer of the call that
// should revoke it nor, whatever the call, in the audit log.
func TestAuditWithoutTokens(t *testing.T) {
	s := newSecured(t, everyRole())
	path := s.audited(t)
	h := s.handler()
	bearer := s.tokens["checker"]
	part := strings.Split(bearer, ".")
	join := "quorate1." + part[1] + "." + part[2] + "." + strings.Repeat("0", 64)
	for _, call := range [][2]string{
		{"/v1/tokens?id=", bearer},
		{"/v1/tokens?id=", join},
		{"/v1/tokens?id=+", bearer},
		{"/v1/cluster/join-tokens?id=", bearer},
		{"/v1/cluster/join-tokens?id=", join},
	} {
		w := s.do(h, "admin", "DELETE", call[0]+call[1], "")
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "is a whole token") || strings.Contains(w.Body.String(), part[2][:8]) {
			t.Errorf("DELETE %s%.12s...: %d %s", call[0], call[1], w.Code, w.Body)
		}
	}
	for _, token := range []string{bearer, join} {
		s.do(h, "admin", "PUT", "/v1/overrides", `{"overrides":[{"namespace":"web","limit":"`+token+`!","key":"k","burst":1}]}`)
		s.do(h, "admin", "PUT", "/v1/bindings", `{"binding":{"identity":"`+token+`","role":"checker"}}`)
	}
	data, err := os.ReadFile(audit.AttemptsPath(path))
	if err != nil || strings.Count(string(data), "\n") != 9 || strings.Contains(string(data), part[2][:8]) {
		t.Errorf("%s, %v; want 9 entries without the secret %s", data, err, part[2])
	}
}
