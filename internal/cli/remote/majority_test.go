package remote

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestMajorityLost checks that the answer of the remaining node takes precedence over errors of the
// unreachable ones.
func TestMajorityLost(t *testing.T) {
	none, err := status.New(codes.Unavailable, "no leader: the change was not made").WithDetails(&errdetails.ErrorInfo{Reason: "NO_LEADER"})
	if err != nil {
		t.Fatal(err)
	}
	to := &Targets{Addrs: []string{"n1:7412", "n2:7412", "n3:7412"}}
	err = to.Call(t.Context(), func(_ context.Context, conn *grpc.ClientConn) error {
		if strings.HasSuffix(conn.Target(), "n1:7412") {
			return none.Err()
		}
		return status.Error(codes.Unavailable, "connection refused")
	})
	if err == nil || !strings.Contains(err.Error(), "no leader") || !strings.Contains(err.Error(), "This needs a majority of the nodes") || strings.Contains(err.Error(), "quorate dev") {
		t.Error(err)
	}
	late := to.NoneAnswers(to.Addrs, status.Error(codes.DeadlineExceeded, "context deadline exceeded")).Error()
	if !strings.Contains(late, "quorate status") || strings.Contains(late, "quorate dev") {
		t.Error(late)
	}
}
