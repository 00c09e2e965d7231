package quotaservice

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// fakeNode returns the decisions that a test sets, and records the requests.
type fakeNode struct {
	limits   *quota.Limits
	decision quota.Decision
	history  []quota.Version // newest first
	past     map[uint64][]quota.Limit
	rates    []*quoratev1.KeyRate
	err      error // of every method that asks other nodes

	mu    sync.Mutex
	asked []quota.Request
	keys  []quota.Key
	top   *quoratev1.TopRatesRequest
}

func (n *fakeNode) Decide(reqs []quota.Request, out []quota.Decision) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, reqs...)
	out[0] = n.decision
	return out[0].Allowed
}

func (n *fakeNode) Limits() *quota.Limits { return n.limits }

func (n *fakeNode) LimitVersions(_ context.Context, before uint64, most int) ([]quota.Version, error) {
	var out []quota.Version
	for _, v := range n.history {
		if (before == 0 || v.Number < before) && len(out) < most {
			out = append(out, v)
		}
	}
	return out, n.err
}

func (n *fakeNode) LimitsAt(_ context.Context, number uint64) (quota.Version, []quota.Limit, error) {
	for _, v := range n.history {
		if limits, ok := n.past[number]; ok && v.Number == number {
			return v, limits, n.err
		}
	}
	return quota.Version{}, nil, &quota.UnknownVersionError{Version: number}
}

func (n *fakeNode) TopRates(_ context.Context, req *quoratev1.TopRatesRequest) (*quoratev1.TopRatesResponse, error) {
	n.top = req
	return &quoratev1.TopRatesResponse{Keys: n.rates}, n.err
}

func (n *fakeNode) Key(_ context.Context, k quota.Key) ([]*quoratev1.KeyRate, error) {
	n.keys = append(n.keys, k)
	return n.rates, n.err
}

var errNoLeader = errors.New("range 3 has no leader just now")

// perSec returns a limit of some tokens per second.
func perSec(namespace, name string, rate, burst int64) quota.Limit {
	return quota.Limit{
		LimitName: quota.LimitName{Namespace: namespace, Limit: name},
		Rate:      quota.Rate{Tokens: rate, Per: time.Second}, Burst: burst,
	}
}

func set(t testing.TB, version uint64, limits ...quota.Limit) *quota.Limits {
	t.Helper()
	s, err := quota.NewLimits(version, limits)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// usual has limits of every kind that names resolve to.
func usual() []quota.Limit {
	return []quota.Limit{
		perSec("named", "one", 10, 20),
		perSec("dynamic", quota.Template, 1, 2),
		perSec("both", quota.Template, 1, 2), perSec("both", quota.Default, 5, 6),
		perSec("fallback", quota.Default, 5, 6),
	}
}

func withGlobal(limits []quota.Limit) []quota.Limit {
	return append(limits, perSec(quota.Global.Namespace, quota.Global.Limit, 50, 100))
}

// quiet is a fakeNode that records nothing, for many concurrent callers.
type quiet struct{ *fakeNode }

func (n *quiet) TopRates(context.Context, *quoratev1.TopRatesRequest) (*quoratev1.TopRatesResponse, error) {
	return &quoratev1.TopRatesResponse{Keys: n.rates}, nil
}
