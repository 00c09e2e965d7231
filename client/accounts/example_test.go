package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/asi"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/accounts"
)

// Ten builds a day for every user, and no build is charged twice.
func Example() {
	ctx := context.Background()
	c, err := client.New(ctx, []string{"127.0.0.1:7412", "127.0.0.1:7422", "127.0.0.1:7432"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	app := accounts.Register(c, "builds", accounts.Options{ResourceTypes: []string{"builds"}})

	config, err := app.LoadPoliciesAuto(ctx, "project:infra", &quoratev1.PolicyConfig{Policies: []*quoratev1.PolicyEntry{{
		Key: &quoratev1.PolicyKey{Namespace: "ci", Name: "per_user", ResourceType: "builds"},
		Policy: &quoratev1.Policy{
			Default: 10, Limit: 10,
			Refill:   &quoratev1.Refill{Units: 10, Interval: 86400}, // at midnight UTC
			Lifetime: durationpb.New(30 * 24 * time.Hour),
		},
	}}})
	if err != nil {
		log.Fatal(err)
	}

	account := app.AccountID("project:infra", "ci", "alice", "builds")
	_, err = app.ApplyOps(ctx, "build-8137", 0, []*quoratev1.Op{{
		AccountId: account, PolicyId: app.PolicyID(config, "ci", "per_user", "builds"), Delta: -1,
	}})
	var refused *accounts.ApplyError
	switch {
	case errors.As(err, &refused) && refused.Failed(quoratev1.OpStatus_OP_STATUS_ERR_UNDERFLOW):
		fmt.Println("alice has had her ten builds today")
	case err != nil:
		log.Fatal(err) // unknown whether the build is charged; repeating the call with its ID tells
	default:
		fmt.Println("build 8137 may start")
	}
}

// Two accounts change together or not at all. The first section of their namespace begins with "@",
// so they share a range and the call is as fast as for one account.
func ExampleApplication_ApplyOps() {
	ctx := context.Background()
	c, err := client.New(ctx, []string{"127.0.0.1:7412"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	app := accounts.Register(c, "storage", accounts.Options{ResourceTypes: []string{"bytes"}})

	team := asi.Join("@team-a", "disk")
	_, err = app.ApplyOps(ctx, "move-77", time.Hour, []*quoratev1.Op{
		{AccountId: app.AccountID("project:infra", team, "alice", "bytes"), Delta: -5_000_000},
		{AccountId: app.AccountID("project:infra", team, "bob", "bytes"), Delta: 5_000_000},
	})
	if failed := (*accounts.ApplyError)(nil); errors.As(err, &failed) {
		for i, r := range failed.Results {
			fmt.Println(i, r.GetStatus(), r.GetStatusMsg())
		}
	}
}

func ExampleApplication_GetAccounts() {
	ctx := context.Background()
	c, err := client.New(ctx, []string{"127.0.0.1:7412"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	app := accounts.Register(c, "builds", accounts.Options{ResourceTypes: []string{"builds"}})

	res, err := app.GetAccounts(ctx, []*quoratev1.AccountID{app.AccountID("project:infra", "ci", "alice", "builds")})
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range res.GetAccounts() {
		if a.GetAccount() == nil {
			fmt.Println(a.GetId().GetName(), "has never built")
			continue
		}
		fmt.Println(a.GetId().GetName(), "has", a.GetProjectedBalance(), "builds left; more at", a.GetNextRefillAt().AsTime())
	}
}
