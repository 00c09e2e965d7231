package security

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/cluster"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/cli/usage"
)

// callSecurity calls SecurityService.
func callSecurity[Request, Response any](ctx context.Context, t *remote.Targets, method remote.Method[quoratev1.SecurityServiceClient, Request, Response], req *Request) (*Response, error) {
	return remote.Invoke(ctx, t, quoratev1.NewSecurityServiceClient, method, req)
}

// NewTokensCommand returns "quorate tokens".
func NewTokensCommand() *cobra.Command {
	return usage.Group("tokens", "Create and revoke bearer tokens for clients",
		`Create, list and revoke the bearer tokens that authenticate clients. The
identity of a token is token:NAME; bind roles to it with "quorate roles bind".
("quorate join-token" creates the tokens with which nodes join.)`,
		newTokensCreateCommand(), newTokensListCommand(), newTokensRevokeCommand())
}

func newTokensCreateCommand() *cobra.Command {
	var t remote.Targets
	var ttl time.Duration
	var output render.Output
	var comment string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token and print it",
		Long: `Create a token and print it on a line of its own: it is shown only once, and the
cluster stores only its hash. Clients send it as "authorization: Bearer TOKEN".
Several tokens may have one name, so that you can replace one: create the new
one, distribute it, revoke the old one.`,
		Example: `  quorate tokens create ci --ttl 90d --comment "the build servers" > ci.token`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &quoratev1.CreateTokenRequest{Name: args[0], Comment: comment}
			if cmd.Flags().Changed("ttl") {
				req.Ttl = durationpb.New(ttl)
			}
			res, err := callSecurity(cmd.Context(), &t, quoratev1.SecurityServiceClient.CreateToken, req)
			if err != nil {
				return err
			}
			return output.Printf(cmd, res, "%s", res.Token)
		},
	}
	t.AddFlags(cmd)
	render.LifetimeFlag(cmd, &ttl, "ttl", 0, "how long it is valid, at most 3650d (default: until it is revoked)")
	cmd.Flags().StringVar(&comment, "comment", "", "what it is for")
	output.AddFlags(cmd, "text", "json")
	return cmd
}

func newTokensListCommand() *cobra.Command {
	var t remote.Targets
	var output render.Output
	cmd := &cobra.Command{
		Use:     "list [ID...]",
		Aliases: []string{"get", "describe"},
		Short:   "List the tokens, without their secrets",
		Long: `List all tokens by name, or those with the given ids, with creator and expiry.
Secrets are not shown. "describe" prints each field on its own line.`,
		Example: `  quorate tokens list
  quorate tokens describe 1f0c9a3b77de
  quorate tokens list -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			res, err := callSecurity(cmd.Context(), &t, quoratev1.SecurityServiceClient.ListTokens, &quoratev1.ListTokensRequest{})
			if err != nil {
				return err
			}
			if res.Tokens, err = cluster.Named(args, res.Tokens, "token", (*quoratev1.BearerToken).GetId); err != nil {
				return err
			}
			rows := render.NewTable("ID", "IDENTITY", "EXPIRES", "MADE BY", "COMMENT")
			for _, t := range res.Tokens {
				end := "never"
				if t.ExpiresAt != nil {
					end = render.When(t.ExpiresAt)
				}
				rows.Row(render.Name(t.Id), render.Name("token:"+t.Name), end, render.NameOrNothing(t.By), render.NameOrNothing(t.Comment))
			}
			return output.Print(cmd, res, func(p *render.Page) { p.TableOr(rows, "no tokens") })
		},
	}
	t.AddFlags(cmd)
	output.AddFlags(cmd, "table", "json")
	return cmd
}

func newTokensRevokeCommand() *cobra.Command {
	var t remote.Targets
	var output render.Output
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a token",
		Long: `Revoke a token by its id from "quorate tokens list". When the command returns,
all connected nodes refuse it; a node that is cut off accepts it until it
reconnects.`,
		Example: `  quorate tokens revoke 1f0c9a3b77de`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			res, err := callSecurity(cmd.Context(), &t, quoratev1.SecurityServiceClient.RevokeToken, &quoratev1.RevokeTokenRequest{Id: args[0]})
			if err != nil {
				return err
			}
			return output.Printf(cmd, res, "%s revoked", args[0])
		},
	}
	t.AddFlags(cmd)
	output.AddFlags(cmd, "text", "json")
	return cmd
}
