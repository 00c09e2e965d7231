package cluster

import (
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/accounts"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/cli/usage"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/pki"
)

// NewJoinTokenCommand returns "quorate join-token".
func NewJoinTokenCommand() *cobra.Command {
	return usage.Group("join-token", "Manage the tokens with which nodes join",
		`Create, list and revoke join tokens. A join token admits a new node to the
cluster, until it is used up, expires, or is revoked. The cluster stores only
its hash.`,
		newJoinTokenCreateCommand(), newJoinTokenListCommand(), newJoinTokenRevokeCommand())
}

// NewTokenCommand returns join-token under its former name, which still works but is hidden from
// help.
func NewTokenCommand() *cobra.Command {
	cmd := NewJoinTokenCommand()
	cmd.Use, cmd.Hidden = "token", true
	return cmd
}

func newJoinTokenCreateCommand() *cobra.Command {
	var t remote.Targets
	var who accounts.Identity
	var ttl time.Duration
	var req quoratev1.CreateJoinTokenRequest
	var output render.Output
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create a join token, and print how a node joins with it",
		Long: `Create a join token, and print the command for the new machine. The token is
shown only once. Pass it in a file, or through a pipe as in the second example:
on a command line, others could read it in the process list and in the shell's
history.`,
		Example: `  quorate join-token create --ttl 1h
  quorate join-token create --uses 3 -o token | ssh n4 "umask 077; cat > join.token"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if req.Uses == 0 {
				return exit.Usagef("--uses 0: must be 1 or more")
			}
			req.Ttl = durationpb.New(ttl)
			res, err := CallCluster(cmd.Context(), &t, who, quoratev1.ClusterServiceClient.CreateJoinToken, &req)
			if err != nil {
				return err
			}
			return printJoinToken(cmd, &t, &output, res)
		},
	}
	t.AddFlags(cmd)
	who.AddFlags(cmd)
	render.LifetimeFlag(cmd, &ttl, "ttl", time.Hour, "how long it is valid; at most 30d")
	cmd.Flags().Uint32Var(&req.Uses, "uses", 1, "how many nodes can join with it; at most 256")
	output.AddFlags(cmd, "text", "json", "token")
	return cmd
}

func printJoinToken(cmd *cobra.Command, t *remote.Targets, output *render.Output, res *quoratev1.CreateJoinTokenResponse) error {
	if output.Format == "token" {
		return output.Printf(cmd, res, "%s", res.Token)
	}
	return output.Printf(cmd, res, `Join token %s, for %s, until %s. It is shown once:

%s

On the new machine, put it into a file that only you can read: paste it after
this command, then press Enter and Ctrl-D

  umask 077; cat > join.token

and start the node there, with a name and an address of its own:

  %s`, phrase.Show(res.Info.GetId()), phrase.Plural(int(res.Info.GetUsesLeft()), "node"), render.When(res.Info.GetExpiresAt()), phrase.Printable(res.Token), joinCommand(t, res))
}

// maxJoinAddresses bounds the members in a join command. A node needs one that answers.
const maxJoinAddresses = 3

// joinCommand returns the command line that starts a new node.
func joinCommand(t *remote.Targets, res *quoratev1.CreateJoinTokenResponse) string {
	addrs := res.Addresses
	if len(addrs) == 0 { // members do not publish their addresses: use those just reached
		addrs, _ = t.Resolve()
	}
	text := fmt.Sprintf("quorate serve --data /var/lib/quorate --node NAME --host ADDRESS \\\n    --join %s --token-file join.token",
		strings.Join(addrs[:min(len(addrs), maxJoinAddresses)], ","))
	if withoutTLS(res.Token) {
		text += " --insecure"
	}
	return text
}

// withoutTLS reports whether a token belongs to a cluster without an authority.
func withoutTLS(token string) bool {
	parsed, err := pki.ParseJoinToken(token)
	return err == nil && parsed.CAHash == pki.Fingerprint(&x509.Certificate{})
}

func newJoinTokenListCommand() *cobra.Command {
	var t remote.Targets
	var output render.Output
	cmd := &cobra.Command{
		Use:     "list [ID...]",
		Aliases: []string{"get", "describe"},
		Short:   "Print the join tokens",
		Long: `Print the join tokens that have uses left, all or those with the given ids,
without their secrets. STATE marks tokens of an authority that "quorate ca
rotate" has replaced: nodes cannot join with them. "describe" prints each field
on its own line.`,
		Example: `  quorate join-token list
  quorate join-token describe 5d1fa2c07b3e`,
		RunE: func(cmd *cobra.Command, args []string) error {
			res, err := CallCluster(cmd.Context(), &t, accounts.Identity{}, quoratev1.ClusterServiceClient.ListJoinTokens, &quoratev1.ListJoinTokensRequest{})
			if err != nil {
				return err
			}
			if res.Tokens, err = Named(args, res.Tokens, "join token", (*quoratev1.JoinToken).GetId); err != nil {
				return err
			}
			tbl := render.NewTable("ID", "EXPIRES", "USES LEFT", "CREATED", "BY", "STATE")
			for _, k := range res.Tokens {
				state := "usable"
				if k.Unusable != "" {
					state = "unusable: " + phrase.Printable(k.Unusable)
				}
				tbl.Row(render.Name(k.Id), render.When(k.ExpiresAt), k.UsesLeft, render.When(k.CreatedAt), render.NameOrNothing(k.By), state)
			}
			return output.Print(cmd, res, func(p *render.Page) { p.TableOr(tbl, "no join tokens") })
		},
	}
	t.AddFlags(cmd)
	output.AddFlags(cmd, "table", "json")
	return cmd
}

func newJoinTokenRevokeCommand() *cobra.Command {
	var t remote.Targets
	var output render.Output
	var who accounts.Identity
	cmd := &cobra.Command{
		Use:     "revoke ID",
		Short:   "Revoke a join token",
		Long:    `Revoke a join token by its id. Nodes that have joined with it remain members.`,
		Example: `  quorate join-token revoke 5d1fa2c07b3e`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := pki.ParseJoinToken(args[0]); err == nil {
				return exit.Usagef("revoke: give the token's id, which is its second part, not the token: it is secret")
			}
			res, err := CallCluster(cmd.Context(), &t, who, quoratev1.ClusterServiceClient.RevokeJoinToken, &quoratev1.RevokeJoinTokenRequest{Id: args[0]})
			if err != nil {
				return err
			}
			return output.Printf(cmd, res, "%s revoked", phrase.Show(args[0]))
		},
	}
	t.AddFlags(cmd)
	who.AddFlags(cmd)
	output.AddFlags(cmd, "text", "json")
	return cmd
}
