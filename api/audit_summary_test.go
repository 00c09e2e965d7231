package api

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// TestSummary checks that summaries stay within their bounds and show no secrets.
func TestSummary(t *testing.T) {
	long := strings.Repeat("é", 100)
	req := &quoratev1.SetOverridesRequest{}
	for range 50 {
		req.Overrides = append(req.Overrides, &quoratev1.Override{Namespace: "web", Limit: long, Comment: long})
	}
	if got := summary(req); len(got) > maxWhat+3 || !strings.HasPrefix(got, `overrides=(50)[{namespace="web" limit="éé`) {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	join := &quoratev1.JoinRequest{Token: "quorate1.a.b.c", Node: "n9", Csr: []byte("xyz")}
	if got := summary(join); got != `token=[secret] node="n9" csr=(3 bytes)` {
		t.Error(got)
	}
	until := &quoratev1.Override{Namespace: "web", Expires: timestamppb.New(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))}
	if got := summary(until); got != `namespace="web" expires=2026-11-30T12:00:00Z` {
		t.Error(got)
	}
	if got := summary(&quoratev1.RenewRequest{Ttl: durationpb.New(90 * time.Second)}); got != `ttl=1m30s` {
		t.Error(got)
	}
	if summary(nil) != "" || summary((*quoratev1.JoinRequest)(nil)) != "" {
		t.Error("nothing has a summary")
	}
}
