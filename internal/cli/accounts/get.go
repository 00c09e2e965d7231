package accounts

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/api"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
)

// accountsShown is how many accounts are printed unless more are asked for.
const accountsShown = 100

func newAccountsGetCommand() *cobra.Command {
	var t remote.Targets
	var who Identity
	var a accountFlags
	var stale bool
	var output string
	cmd := &cobra.Command{
		Use:   "get [ACCOUNT...]",
		Short: "Print accounts, as they are at one moment",
		Long: `Print accounts: the balance when it was last changed, the projected balance with
all refills up to now, when the next refill is due, and the policy. All are as of
one moment. Nothing is changed by looking. Exit code 5 says that one of them does
not exist.`,
		Example: `  quorate accounts get cv~project:infra~~~alice~builds
  quorate accounts get --app cv --realm project:infra --identity user:ann --namespace ci --name ann --type builds -o json
  quorate accounts get cv~project:infra~~~alice~builds cv~project:infra~~~bob~builds --stale`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := a.ids(cmd, args)
			if err != nil {
				return err
			}
			req := &quoratev1.GetAccountsRequest{Stale: stale}
			for _, id := range ids {
				req.Accounts = append(req.Accounts, accountProto(id))
			}
			var res *quoratev1.GetAccountsResponse
			err = callAdmin(cmd.Context(), &t, who, func(ctx context.Context, c quoratev1.AccountAdminServiceClient) (err error) {
				res, err = c.GetAccounts(ctx, req)
				return err
			})
			if err != nil {
				return err
			}
			return printAccounts(cmd, output, res)
		},
	}
	t.AddFlags(cmd)
	who.AddFlags(cmd)
	a.addFlags(cmd)
	cmd.Flags().BoolVar(&stale, "stale", false, "take the nearest replica's word, perhaps a second old")
	render.OutputFlag(cmd, &output, "table", "json")
	return cmd
}

func printAccounts(cmd *cobra.Command, output string, res *quoratev1.GetAccountsResponse) error {
	var err error
	if output == "json" {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", api.FormatJSON(res))
	} else {
		t := render.NewTable("ACCOUNT", "BALANCE", "PROJECTED", "NEXT REFILL", "LIMIT", "POLICY", "UPDATED")
		for _, s := range res.Accounts {
			t.Row(append([]string{accountWord(s.Id)}, stateCells(s)...)...)
		}
		err = t.Write(cmd.OutOrStdout())
	}
	if err != nil {
		return err
	}
	missing := 0
	for _, s := range res.Accounts {
		if s.Account == nil {
			missing++
		}
	}
	switch {
	case missing == 0:
		return nil
	case len(res.Accounts) == 1:
		return exit.NotFoundf("%s: %w", accountWord(res.Accounts[0].Id), errNoAccount)
	}
	return exit.NotFoundf("%d of %s do not exist", missing, render.Plural(len(res.Accounts), "account"))
}

// stateCells are balance, projected, next refill, limit, policy and time of change.
func stateCells(s *quoratev1.AccountState) []string {
	if s.Account == nil {
		return []string{"-", "-", "-", "-", "-", "-"}
	}
	limit := "-"
	if s.Account.Policy != nil {
		limit = render.Num(int64(s.Account.Policy.Limit))
	}
	return []string{render.Num(s.Account.Balance), render.Num(s.ProjectedBalance), render.When(s.NextRefillAt), limit, policyWord(s.Account.PolicyId, s.Id), render.When(s.Account.UpdatedAt)}
}

func newAccountsListCommand() *cobra.Command {
	var t remote.Targets
	var who Identity
	var a accountFlags
	var output string
	var most int
	cmd := &cobra.Command{
		Use:   "list --app APP --realm REALM",
		Short: "Print the accounts of a realm",
		Long: `Print accounts in order of their ids: those of a realm, or, with the other flags,
of one identity (--identity "" is nobody's), namespace, type, and beginning of the
name. There may be millions: the first 100 are printed, and --max says how many
instead, 0 all of them; they are fetched and printed in pages.`,
		Example: `  quorate accounts list --app cv --realm project:infra
  quorate accounts list --app cv --realm project:infra --namespace ci --prefix a --type builds --max 0 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.need(); err != nil {
				return err
			}
			if most < 0 {
				return exit.Usagef("--max %d: must be 0 (all) or more", most)
			}
			req := &quoratev1.ListAccountsRequest{AppId: a.app, Realm: a.realm, NamePrefix: a.name, ResourceType: a.resource}
			if cmd.Flags().Changed("identity") {
				req.Identity = new(a.identity)
			}
			if cmd.Flags().Changed("namespace") {
				req.Namespace = new(a.namespace)
			}
			return listAccounts(cmd, &t, who, req, most, output)
		},
	}
	t.AddFlags(cmd)
	who.AddFlags(cmd)
	a.realmFlags.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&a.identity, "identity", "", "only this identity's")
	f.StringVar(&a.namespace, "namespace", "", "only of this namespace")
	f.StringVar(&a.name, "prefix", "", "only names that begin so")
	f.StringVar(&a.resource, "type", "", "only what counts this")
	f.IntVar(&most, "max", accountsShown, "how many to print; 0 is all")
	render.OutputFlag(cmd, &output, "table", "json")
	return cmd
}

// listAccounts fetches and prints page by page.
func listAccounts(cmd *cobra.Command, t *remote.Targets, who Identity, req *quoratev1.ListAccountsRequest, most int, output string) error {
	defer t.Keep()()
	tbl := render.NewTable("IDENTITY", "NAMESPACE", "NAME", "TYPE", "BALANCE", "PROJECTED", "NEXT REFILL", "LIMIT", "POLICY", "UPDATED")
	pages := pager{cmd: cmd, output: output, name: "accounts", tbl: tbl, most: most}
	return pages.run(func(size int32) ([]proto.Message, string, error) {
		req.PageSize = size
		var res *quoratev1.ListAccountsResponse
		err := callAdmin(cmd.Context(), t, who, func(ctx context.Context, c quoratev1.AccountAdminServiceClient) (err error) {
			res, err = c.ListAccounts(ctx, req)
			return err
		})
		if err != nil {
			return nil, "", err
		}
		req.PageToken = res.NextPageToken
		var out []proto.Message
		for _, s := range res.Accounts {
			out = append(out, s)
			id := s.GetId()
			tbl.Row(append([]string{render.OrNothing(id.GetIdentity()), render.OrNothing(id.GetNamespace()), render.Cell(id.GetName()), render.Cell(id.GetResourceType())}, stateCells(s)...)...)
		}
		return out, res.NextPageToken, nil
	})
}

// pager prints pages of what a node lists as one whole.
type pager struct {
	cmd          *cobra.Command
	output, name string
	tbl          *render.Table
	most         int
}

// run fetches and prints; fetch returns a page, of which it has added the rows, and
// the token of the next.
func (p *pager) run(fetch func(size int32) ([]proto.Message, string, error)) error {
	w := p.cmd.OutOrStdout()
	for shown, first := 0, true; ; first = false {
		size := api.MaxList
		if p.most > 0 {
			size = min(p.most-shown, size)
		}
		list, next, err := fetch(int32(size))
		if err != nil {
			return err
		}
		if p.output == "json" {
			_, err = w.Write(p.json(list, first, shown > 0))
		} else if err = p.tbl.Write(w); err == nil {
			p.tbl.Next()
		}
		if err != nil {
			return err
		}
		shown += len(list)
		if next != "" && len(list) > 0 && (p.most == 0 || shown < p.most) {
			continue
		}
		if p.output == "json" {
			_, err = fmt.Fprintln(w, "]}")
		}
		if next != "" && len(list) > 0 {
			fmt.Fprintf(p.cmd.ErrOrStderr(), "quorate: there may be more than these %d; --max 0 shows all\n", shown)
		}
		return err
	}
}

func (p *pager) json(list []proto.Message, first, some bool) []byte {
	var b bytes.Buffer
	if first {
		fmt.Fprintf(&b, `{%q:[`, p.name)
	}
	for i, m := range list {
		if i > 0 || some {
			b.WriteByte(',')
		}
		b.Write(api.FormatJSON(m))
	}
	return b.Bytes()
}

func newAccountsHistoryCommand() *cobra.Command {
	var t remote.Targets
	var who Identity
	var a accountFlags
	var output string
	cmd := &cobra.Command{
		Use:   "history [ACCOUNT]",
		Short: "Print the last changes of an account",
		Long: fmt.Sprintf(`Print the last changes of an account, newest first, at most %d: when, who, by
which request, and what became of the balance. Exit code 5 says that there are
none: the account does not exist.`, account.MaxHistory),
		Example: `  quorate accounts history cv~project:infra~~~alice~builds
  quorate accounts history --app cv --realm project:infra --name alice --type builds -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := a.ids(cmd, args)
			if err != nil {
				return err
			}
			var res *quoratev1.GetAccountHistoryResponse
			err = callAdmin(cmd.Context(), &t, who, func(ctx context.Context, c quoratev1.AccountAdminServiceClient) (err error) {
				res, err = c.GetAccountHistory(ctx, &quoratev1.GetAccountHistoryRequest{AccountId: accountProto(ids[0])})
				return err
			})
			if err != nil {
				return err
			}
			if err := printAccountHistory(cmd, output, ids[0], res); err != nil {
				return err
			}
			if len(res.Changes) == 0 {
				return exit.NotFoundf("%s: %w", render.Printable(config.FormatAccountID(ids[0])), errNoAccount)
			}
			return nil
		},
	}
	t.AddFlags(cmd)
	who.AddFlags(cmd)
	a.addFlags(cmd)
	render.OutputFlag(cmd, &output, "table", "json")
	return cmd
}

func printAccountHistory(cmd *cobra.Command, output string, id account.ID, res *quoratev1.GetAccountHistoryResponse) error {
	if output == "json" {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", api.FormatJSON(res))
		return err
	}
	t := render.NewTable("TIME", "BY", "REQUEST", "BEFORE", "AFTER", "POLICY SET")
	for _, c := range res.Changes {
		t.Row(render.When(c.At), render.OrNothing(c.By), render.OrNothing(c.RequestId), render.Num(c.PreviousBalance), render.Num(c.NewBalance), policyWord(c.PolicyId, accountProto(id)))
	}
	return t.Write(cmd.OutOrStdout())
}
