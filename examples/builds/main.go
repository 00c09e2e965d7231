// Command builds asks a Quorate cluster whether a user may start a build: exactly ten a day,
// whatever fails, and no build is charged twice.
//
//	go run ./examples/builds alice 8137
//
// It exits with 0 if the build may start, with 3 if the user has none left, and with 1 if the
// outcome is unknown: then run it again. A second run for the same build gives the same answer and
// charges nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/asi"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/accounts"
)

const (
	realm    = "project:infra"
	resource = "builds"
	perUser  = "per_user"
	perDay   = 10
)

// policies allows each user ten builds, refilled at midnight UTC. The cluster drops accounts that
// were not used for a month.
var policies = &quoratev1.PolicyConfig{Policies: []*quoratev1.PolicyEntry{{
	Key: &quoratev1.PolicyKey{Name: perUser, ResourceType: resource},
	Policy: &quoratev1.Policy{
		Default: perDay, Limit: perDay,
		Refill:   &quoratev1.Refill{Units: perDay, Interval: 24 * 60 * 60},
		Lifetime: durationpb.New(30 * 24 * time.Hour),
	},
}}}

var errNoneLeft = errors.New("none left")

func main() {
	nodes := flag.String("nodes", "127.0.0.1:7412,127.0.0.1:7422,127.0.0.1:7432", "gRPC addresses of the nodes")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: builds [-nodes HOST:PORT,...] USER BUILD")
		os.Exit(2)
	}
	err := run(context.Background(), strings.Split(*nodes, ","), flag.Arg(0), flag.Arg(1), os.Stdout)
	switch {
	case errors.Is(err, errNoneLeft):
		os.Exit(3)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, nodes []string, user, build string, out io.Writer) error {
	c, err := client.New(ctx, nodes, client.WithMode(client.Remote))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	app := accounts.Register(c, "builds", accounts.Options{ResourceTypes: []string{resource}})
	// This changes nothing if the policies exist. A service does it once, when it starts.
	config, err := app.LoadPoliciesAuto(ctx, realm, policies)
	if err != nil {
		return err
	}
	// User names may be any text: asi.Join encodes them into valid account names.
	account := app.AccountID(realm, "", asi.Join(user), resource)
	res, err := app.ApplyOps(ctx, asi.Join("build", user, build), 24*time.Hour, []*quoratev1.Op{{
		AccountId: account, PolicyId: app.PolicyID(config, "", perUser, resource), Delta: -1,
	}})
	var failed *accounts.ApplyError
	switch {
	case errors.As(err, &failed) && failed.Failed(quoratev1.OpStatus_OP_STATUS_ERR_UNDERFLOW):
		if err := refuse(ctx, app, account, user, out); err != nil {
			return err
		}
		return errNoneLeft
	case err != nil:
		return err
	}
	again := ""
	if res.GetRepeated() {
		again = " (it was charged before)"
	}
	_, err = fmt.Fprintf(out, "build %s of %s may start%s; %d of %d were left\n", build, user, again, res.GetResults()[0].GetNewBalance(), perDay)
	return err
}

// refuse prints when the user will have more builds.
func refuse(ctx context.Context, app *accounts.Application, account *quoratev1.AccountID, user string, out io.Writer) error {
	res, err := app.GetAccounts(ctx, []*quoratev1.AccountID{account})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s has had all builds of today; more at %s\n", user, res.GetAccounts()[0].GetNextRefillAt().AsTime().Format(time.RFC3339))
	return err
}
