package accounts

import (
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/cli/remote"
)

// TestNothingDone checks that the command knows from an error's reason, whatever its text, whether
// the operations may have been applied.
func TestNothingDone(t *testing.T) {
	for _, c := range []struct {
		code   codes.Code
		reason string
		want   bool
	}{
		{codes.Aborted, "ACCOUNTS_HELD", true},
		{codes.ResourceExhausted, "OVERLOADED", true},
		{codes.Unavailable, "NO_LEADER", false},
		{codes.Unavailable, "", false},
	} {
		st, err := status.New(c.code, "some text").WithDetails(&errdetails.ErrorInfo{Reason: c.reason})
		if err != nil {
			t.Fatal(err)
		}
		if got := nothingDone(remote.Refusal(st.Err())); got != c.want {
			t.Errorf("%v %q: %v, want %v", c.code, c.reason, got, c.want)
		}
	}
}
