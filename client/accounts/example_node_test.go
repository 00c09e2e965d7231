package accounts_test

import (
	"context"
	"fmt"
	"log"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/accounts"
	"github.com/quorate/quorate/internal/examplenode"
)

// A repeated request is applied once. The node is a real one, started for this example.
func ExampleApplication_ApplyOps_once() {
	addr, stop, err := examplenode.Start("version: 1\nglobal_default: {rate: 50/s, burst: 100}\n")
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	ctx := context.Background()
	c, err := client.New(ctx, []string{addr}, client.WithTimeout(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	app := accounts.Register(c, "builds", accounts.Options{ResourceTypes: []string{"builds"}})
	config, err := app.LoadPoliciesAuto(ctx, "project:infra", &quoratev1.PolicyConfig{Policies: []*quoratev1.PolicyEntry{{
		Key:    &quoratev1.PolicyKey{Namespace: "ci", Name: "per_user", ResourceType: "builds"},
		Policy: &quoratev1.Policy{Default: 10, Limit: 10},
	}}})
	if err != nil {
		log.Fatal(err)
	}
	account := app.AccountID("project:infra", "ci", "alice", "builds")
	policy := app.PolicyID(config, "ci", "per_user", "builds")

	for _, request := range []string{"build-8137", "build-8137", "build-8138"} {
		_, err := app.ApplyOps(ctx, request, time.Hour, []*quoratev1.Op{{AccountId: account, PolicyId: policy, Delta: -1}})
		if err != nil {
			log.Fatal(err)
		}
		res, err := app.GetAccounts(ctx, []*quoratev1.AccountID{account})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(request, res.GetAccounts()[0].GetProjectedBalance())
	}
	// Output:
	// build-8137 9
	// build-8137 9
	// build-8138 8
}
