package client

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc/connectivity"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// TestLearns checks that a client keeps the nodes that were given, the one it is attached to, and those
// that this one lists, and forgets all others.
func TestLearns(t *testing.T) {
	n, err := newNodes([]string{"given:1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	for _, c := range []struct {
		from   string
		others []string
		want   []string
	}{
		{"given:1", []string{"a:1", "b:1"}, []string{"given:1", "a:1", "b:1"}},
		{"a:1", []string{"given:1", "c:1"}, []string{"given:1", "a:1", "c:1"}},
		{"c:1", nil, []string{"given:1", "a:1", "c:1"}},
		{"c:1", []string{"d:1"}, []string{"given:1", "c:1", "d:1"}},
	} {
		a := n.find("a:1")
		n.learn(c.from, c.others)
		if got := n.addrs(); !slices.Equal(got, c.want) {
			t.Errorf("%s lists %v: %v; want %v", c.from, c.others, got, c.want)
		}
		if a != nil && n.find("a:1") == nil && a.conn.GetState() != connectivity.Shutdown {
			t.Errorf("the connection of a forgotten node is %v", a.conn.GetState())
		}
	}
	for round := range 3 { // replaced nodes leave room for their successors
		var others []string
		for i := range MaxAddresses - 1 {
			others = append(others, fmt.Sprintf("n%d-%d:1", round, i))
		}
		n.learn("given:1", others)
		if got := n.addrs(); !slices.Equal(got, append([]string{"given:1"}, others...)) {
			t.Errorf("round %d: %d nodes, the last %s", round, len(got), got[len(got)-1])
		}
	}
}

// TestForgottenWhileAsked checks that a call whose node is forgotten goes to another one.
func TestForgottenWhileAsked(t *testing.T) {
	addr, _ := serve(t, &booker{})
	c := newClient(t, []string{addr, addr + "0"})
	first := c.nodes.all()[0]
	calls := 0
	err := c.ask(t.Context(), func(ctx context.Context, q quoratev1.QuotaServiceClient) error {
		if calls++; calls == 1 {
			_ = first.conn.Close() // as learn does
			_, err := q.Renew(ctx, &quoratev1.RenewRequest{})
			return err
		}
		return nil
	})
	if err != nil || calls != 2 {
		t.Errorf("%v after %d calls; want none after 2", err, calls)
	}
}
