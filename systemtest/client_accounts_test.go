package systemtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/accounts"
)

// handle returns an application connected to the given nodes.
func handle(t *testing.T, addrs ...string) *accounts.Application {
	t.Helper()
	c, err := client.New(t.Context(), addrs, client.WithMode(client.Remote))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return accounts.Register(c, "cv", accounts.Options{ResourceTypes: []string{"slots"}})
}

func slotPolicy(limit uint64) *quoratev1.PolicyConfig {
	return &quoratev1.PolicyConfig{Policies: []*quoratev1.PolicyEntry{{
		Key: &quoratev1.PolicyKey{Name: "p", ResourceType: "slots"}, Policy: &quoratev1.Policy{Default: limit, Limit: limit},
	}}}
}

// TestPoliciesOnAllNodes checks that policies loaded through one node apply at once through every
// other node, and that policies purged through one node apply through none.
func TestPoliciesOnAllNodes(t *testing.T) {
	t.Parallel() // mostly waits
	c := newServers(t, 4)
	c.run(noLimits)
	const realm = "project:test"
	var via []*accounts.Application
	for _, s := range c.nodes {
		via = append(via, handle(t, s.grpc))
	}
	set := func(app *accounts.Application, config *quoratev1.PolicyConfigID, name string) (*quoratev1.ApplyOpsResponse, error) {
		return app.ApplyOps(t.Context(), "", 0, []*quoratev1.Op{{
			AccountId: app.AccountID(realm, "", name, "slots"), PolicyId: app.PolicyID(config, "", "p", "slots"), Delta: -1,
		}})
	}
	for i := range 12 {
		config, err := via[i%3].LoadPoliciesAuto(t.Context(), realm, slotPolicy(uint64(10+i)))
		if err != nil {
			t.Fatal(err)
		}
		for k, app := range via {
			res, err := set(app, config, fmt.Sprintf("a%d-%d", i, k))
			if err != nil || res.Results[0].NewBalance != int64(9+i) {
				t.Errorf("loaded through n%d, used through n%d: %v, %v", i%3+1, k+1, res, err)
			}
		}
		if i%2 == 0 {
			continue
		}
		_, msg, code := quorate(t, "policies", "purge", "--yes", "--app", "cv", "--realm", realm, config.Version, "--addr", c.nodes[(i+1)%3].grpc)
		if code != 0 {
			t.Fatalf("purge: exit code %d\n%s", code, msg)
		}
		for k, app := range via {
			_, err := set(app, config, "new")
			var failed *accounts.ApplyError
			if !errors.As(err, &failed) || !failed.Failed(quoratev1.OpStatus_OP_STATUS_ERR_UNKNOWN_POLICY) {
				t.Errorf("purged, and used through n%d: %v", k+1, err)
			}
			kept, err := app.ApplyOps(t.Context(), "", 0, []*quoratev1.Op{{AccountId: app.AccountID(realm, "", fmt.Sprintf("a%d-%d", i, k), "slots"), Delta: -1}})
			if err != nil || kept.Results[0].NewBalance != int64(8+i) {
				t.Errorf("an account that has a copy, through n%d: %v, %v", k+1, kept, err)
			}
		}
	}
}

// TestAccountsClient checks every answer that the Go client distinguishes, against real nodes.
func TestAccountsClient(t *testing.T) {
	t.Parallel() // mostly waits
	c := newServers(t, 4)
	c.run(noLimits)
	const realm = "project:test"
	app := handle(t, strings.Split(c.addrs(), ",")...)
	config, err := app.LoadPoliciesManual(t.Context(), realm, "1", slotPolicy(10))
	if err != nil || config.Version != "#1" {
		t.Fatalf("load: %v, %v", config, err)
	}
	again, err := app.LoadPoliciesManual(t.Context(), realm, "1", slotPolicy(99)) // the call does not compare the content
	if err != nil || again.Version != "#1" {
		t.Fatalf("load: %v, %v", again, err)
	}
	op := func(name string, delta int64) *quoratev1.Op {
		return &quoratev1.Op{AccountId: app.AccountID(realm, "", name, "slots"), PolicyId: app.PolicyID(config, "", "p", "slots"), Delta: delta}
	}
	apply := func(id string, ops ...*quoratev1.Op) (*quoratev1.ApplyOpsResponse, error) {
		return app.ApplyOps(t.Context(), id, time.Hour, ops)
	}
	first, err := apply("one", op("a", -3), op("b", -4))
	if err != nil || first.Results[0].NewBalance != 7 || first.Results[1].NewBalance != 6 {
		t.Errorf("apply: %v, %v", first, err)
	}
	repeated, err := apply("one", op("a", -3), op("b", -4))
	if err != nil || !repeated.Repeated || repeated.Results[1].NewBalance != 6 || !repeated.OriginallySet.AsTime().Equal(first.OriginallySet.AsTime()) {
		t.Errorf("repeated: %v, %v; first %v", repeated, err, first)
	}
	if _, err := apply("one", op("a", -3)); !errors.Is(err, accounts.ErrMismatch) {
		t.Errorf("other operations: %v", err)
	}
	_, err = apply("two", op("a", -1), op("b", -7))
	var failed *accounts.ApplyError
	if !errors.As(err, &failed) || failed.Results[0].Status != quoratev1.OpStatus_OP_STATUS_SUCCESS || failed.Results[1].Status != quoratev1.OpStatus_OP_STATUS_ERR_UNDERFLOW {
		t.Errorf("one of two fails: %v", err)
	}
	if _, err := apply("", &quoratev1.Op{AccountId: app.AccountID(realm, "", "c", "slots"), Delta: 1}); !errors.As(err, &failed) || !failed.Failed(quoratev1.OpStatus_OP_STATUS_ERR_MISSING_ACCOUNT) {
		t.Errorf("a missing account: %v", err)
	}
	var wrong *accounts.Error
	if _, err := apply("", op("a~b", 1)); !errors.Is(err, client.ErrInvalid) || !errors.As(err, &wrong) || wrong.Field == "" || !strings.Contains(err.Error(), "~") {
		t.Errorf("a wrong name: %v", err)
	}
	ids := []*quoratev1.AccountID{op("a", 0).AccountId, op("c", 0).AccountId, op("b", 0).AccountId}
	got, err := app.GetAccounts(t.Context(), ids)
	if err != nil || got.Accounts[0].ProjectedBalance != 7 || got.Accounts[1].Account != nil || got.Accounts[2].Account.GetBalance() != 6 {
		t.Errorf("get: %v, %v", got, err)
	}
	eventually(t, 3*time.Second, "a stale read sees it too", func() error {
		got, err := app.GetAccountsStale(t.Context(), ids)
		if err != nil || got.Accounts[0].ProjectedBalance != 7 {
			return fmt.Errorf("%v, %w", got, err)
		}
		return nil
	})
	for _, s := range c.nodes[1:] {
		s.kill()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := app.ApplyOps(ctx, "three", 0, []*quoratev1.Op{op("a", -1)}); !errors.Is(err, client.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one node of three: %v", err)
	}
}
