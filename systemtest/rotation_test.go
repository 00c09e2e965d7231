package systemtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestRotation checks that the CA can be replaced under load: every node gets a new certificate,
// and no check fails.
func TestRotation(t *testing.T) {
	testspeed.Full(t)
	g := startGrowth(t, 3)
	g.grow(g.nodes[1], g.nodes[2])
	began := time.Now()
	rotate := func(r *quoratev1.RotateAuthorityRequest) (res *quoratev1.RotateAuthorityResponse) {
		g.call("rotation", func(ctx context.Context, s quoratev1.ClusterServiceClient) (err error) {
			res, err = s.RotateAuthority(ctx, r)
			return err
		})
		return res
	}
	var now *quoratev1.RotateAuthorityResponse
	until := func(phase string) {
		eventuallyEvery(t, 50*time.Millisecond, 20*time.Second, "the rotation is "+phase, func() error {
			if now = rotate(&quoratev1.RotateAuthorityRequest{Ask: true}); now.GetPhase() != phase {
				return fmt.Errorf("%s: %s", now.GetPhase(), now.GetWaitsFor())
			}
			return nil
		})
	}
	until("steady")
	before := now.GetFingerprint()
	token := func() (id string) {
		g.call("a join token", func(ctx context.Context, s quoratev1.ClusterServiceClient) error {
			res, err := s.CreateJoinToken(ctx, &quoratev1.CreateJoinTokenRequest{})
			id = res.GetInfo().GetId()
			return err
		})
		return id
	}
	early := token()
	if n := now.GetLostJoinTokens(); n != 0 {
		t.Errorf("%d join tokens are lost before there is a rotation", n)
	}
	rotate(&quoratev1.RotateAuthorityRequest{})
	until("trusted")
	if now.GetLostJoinTokens() == 0 {
		t.Error("nobody says that the join token is lost when the next authority signs")
	}
	write(t, filepath.Join(g.nodes[0].dir, "admin", "ca.crt"), string(now.GetTrust())) // the clients' copy
	time.Sleep(2200 * time.Millisecond)                                                // the clients check it every 2 s
	rotate(&quoratev1.RotateAuthorityRequest{})
	until("finishing")
	if now.GetFingerprint() == before {
		t.Error("the same authority signs")
	}
	late := token()
	var tokens *quoratev1.ListJoinTokensResponse
	g.call("the join tokens", func(ctx context.Context, s quoratev1.ClusterServiceClient) (err error) {
		tokens, err = s.ListJoinTokens(ctx, &quoratev1.ListJoinTokensRequest{})
		return err
	})
	for _, k := range tokens.GetTokens() {
		if k.Id == early && k.Unusable == "" || k.Id == late && k.Unusable != "" {
			t.Errorf("of an authority that was replaced, and of the one that signs: %v", tokens.GetTokens())
		}
	}
	if !slices.ContainsFunc(now.GetSeen(), func(s *quoratev1.SeenCertificate) bool {
		return s.Identity == "client:admin" && s.Authority == before && s.Node != "" && time.Since(s.At.AsTime()) < time.Minute
	}) {
		t.Errorf("who still has a certificate of the earlier authority is not said: %v", now.GetSeen())
	}
	for _, s := range g.nodes {
		eventually(t, 5*time.Second, s.id+" renewed its certificate", func() error {
			if said(s, "certificate renewed") == "" {
				return errors.New("it does not say so")
			}
			return nil
		})
	}
	time.Sleep(time.Second) // load after the rotation
	g.tell(began, time.Since(began))
	g.judge()
}
