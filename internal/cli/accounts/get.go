package accounts

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
)

// accountsShown bounds the accounts in the output by default.
const accountsShown = 100

func newAccountsGetCommand() *cobra.Command {
	var t remote.Targets
	var who Identity
	var a accountFlags
	var stale bool
	var output render.Output
	cmd := &cobra.Command{
		Use:     "get [ACCOUNT...]",
		Aliases: []string{"describe"},
		Short:   "Print accounts, all as of the same moment",
		Long: `Print accounts: the balance when it was last changed, the projected balance with
all refills up to now, when the next refill is due, and the policy. All values
are of the same moment. Reading changes nothing. Exit code 5 means that one of
them is unknown. "describe" prints each value on its own line; "quorate accounts
history" prints the last changes.`,
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
				req.Accounts = append(req.Accounts, apiproto.AccountID(id))
			}
			res, err := callAdmin(cmd.Context(), &t, who, quoratev1.AccountAdminServiceClient.GetAccounts, req)
			if err != nil {
				return err
			}
			return printAccounts(cmd, &output, res)
		},
	}
	t.AddFlags(cmd)
	who.AddFlags(cmd)
	a.addFlags(cmd)
	cmd.Flags().BoolVar(&stale, "stale", false, "read the nearest replica, up to a second stale")
	output.AddFlags(cmd, "table", "json")
	return cmd
}

func printAccounts(cmd *cobra.Command, output *render.Output, res *quoratev1.GetAccountsResponse) error {
	t := render.NewTable("ACCOUNT", "BALANCE", "PROJECTED", "NEXT REFILL", "LIMIT", "POLICY", "UPDATED")
	for _, s := range res.Accounts {
		t.Row(append([]any{accountWord(s.Id)}, stateCells(s)...)...)
	}
	if err := output.Print(cmd, res, func(p *render.Page) { p.Table(t) }); err != nil {
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
		return exit.NotFoundf("%w %s", errNoAccount, accountWord(res.Accounts[0].Id))
	}
	return exit.NotFoundf("%d of %s are unknown", missing, phrase.Plural(len(res.Accounts), "account"))
}

// stateCells returns balance, projected, next refill, limit, policy and time of change.
func stateCells(s *quoratev1.AccountState) []any {
	if s.Account == nil {
		return slices.Repeat([]any{render.Nothing}, 6)
	}
	var limit any = render.Nothing
	if s.Account.Policy != nil {
		limit = int64(s.Account.Policy.Limit)
	}
	return []any{s.Account.Balance, s.ProjectedBalance, render.When(s.NextRefillAt), limit, policyCell(s.Account.PolicyId, s.Id), render.When(s.Account.UpdatedAt)}
}

func newAccountsListCommand() *cobra.Command {
	var t remote.Targets
	var who Identity
	var a accountFlags
	var output render.Output
	var most int
	cmd := &cobra.Command{
		Use:   "list --app APP --realm REALM",
		Short: "Print the accounts of a realm",
		Long: `Print accounts in order of their ids: those of a realm, or, with the other
flags, of one identity (--identity "": those without an owner), namespace, type,
and prefix of the name. The first 100 are printed unless --max is given (0:
all).`,
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
			return listAccounts(cmd, &t, who, req, most, &output)
		},
	}
	t.AddFlags(cmd)
	who.AddFlags(cmd)
	a.realmFlags.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&a.identity, "identity", "", "only this identity's")
	f.StringVar(&a.namespace, "namespace", "", "only of this namespace")
	f.StringVar(&a.name, "prefix", "", "only names with this prefix")
	f.StringVar(&a.resource, "type", "", "only this type")
	f.IntVar(&most, "max", accountsShown, "how many to print; 0 is all")
	output.AddFlags(cmd, "table", "json")
	return cmd
}

// listAccounts fetches and prints accounts page by page.
func listAccounts(cmd *cobra.Command, t *remote.Targets, who Identity, req *quoratev1.ListAccountsRequest, most int, output *render.Output) error {
	defer t.ReuseConns()()
	tbl := render.NewTable("IDENTITY", "NAMESPACE", "NAME", "TYPE", "BALANCE", "PROJECTED", "NEXT REFILL", "LIMIT", "POLICY", "UPDATED")
	return printPages(cmd, output.List(cmd, "accounts", "no accounts", tbl), most, func(size int32) ([]proto.Message, string, error) {
		req.PageSize = size
		res, err := callAdmin(cmd.Context(), t, who, quoratev1.AccountAdminServiceClient.ListAccounts, req)
		if err != nil {
			return nil, "", err
		}
		req.PageToken = res.NextPageToken
		var out []proto.Message
		for _, s := range res.Accounts {
			out = append(out, s)
			id := s.GetId()
			tbl.Row(append([]any{render.NameOrNothing(id.GetIdentity()), render.NameOrNothing(id.GetNamespace()), render.Name(id.GetName()), render.Name(id.GetResourceType())}, stateCells(s)...)...)
		}
		return out, res.NextPageToken, nil
	})
}

// printPages fetches the pages of a list and prints at most most items as one list, 0 meaning all.
// fetch adds the rows of a page, and returns the page and the token of the next.
func printPages(cmd *cobra.Command, pages *render.List, most int, fetch func(size int32) ([]proto.Message, string, error)) error {
	for shown := 0; ; {
		size := apiproto.MaxList
		if most > 0 {
			size = min(most-shown, size)
		}
		list, next, err := fetch(int32(size))
		if err != nil {
			return err
		}
		if err := pages.Add(list); err != nil {
			return err
		}
		shown += len(list)
		if next != "" && len(list) > 0 && (most == 0 || shown < most) {
			continue
		}
		err = pages.End("")
		if next != "" && len(list) > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "quorate: there may be more than these %d; --max 0 shows all\n", shown)
		}
		return err
	}
}

func newAccountsHistoryCommand() *cobra.Command {
	var t remote.Targets
	var who Identity
	var a accountFlags
	var output render.Output
	cmd := &cobra.Command{
		Use:   "history [ACCOUNT]",
		Short: "Print the last changes of an account",
		Long: fmt.Sprintf(`Print the last changes of an account, newest first, at most %d: time, author,
request, and the new balance. Exit code 5 means that the account is unknown.`, account.MaxHistory),
		Example: `  quorate accounts history cv~project:infra~~~alice~builds
  quorate accounts history --app cv --realm project:infra --name alice --type builds -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := a.ids(cmd, args)
			if err != nil {
				return err
			}
			res, err := callAdmin(cmd.Context(), &t, who, quoratev1.AccountAdminServiceClient.GetAccountHistory, &quoratev1.GetAccountHistoryRequest{AccountId: apiproto.AccountID(ids[0])})
			if err != nil {
				return err
			}
			if err := output.Print(cmd, res, func(p *render.Page) { printAccountHistory(p, ids[0], res) }); err != nil {
				return err
			}
			if len(res.Changes) == 0 {
				return exit.NotFoundf("%w %s", errNoAccount, phrase.Printable(config.FormatAccountID(ids[0])))
			}
			return nil
		},
	}
	t.AddFlags(cmd)
	who.AddFlags(cmd)
	a.addFlags(cmd)
	output.AddFlags(cmd, "table", "json")
	return cmd
}

// before returns a cell with the balance before a change. An account that the change created had none, which is
// 0 for programs.
func before(balance int64, created bool) render.Cell {
	if created {
		return render.Cell{Human: render.Nothing, Machine: "0"}
	}
	text := strconv.FormatInt(balance, 10)
	return render.Cell{Human: text, Machine: text}
}

func printAccountHistory(p *render.Page, id account.ID, res *quoratev1.GetAccountHistoryResponse) {
	t := render.NewTable("TIME", "BY", "REQUEST", "BEFORE", "AFTER", "POLICY SET")
	for i, c := range res.Changes {
		created := account.CreatedBy(i, len(res.Changes), c.PreviousBalance)
		t.Row(render.When(c.At), render.NameOrNothing(c.By), render.NameOrNothing(c.RequestId), before(c.PreviousBalance, created), c.NewBalance, policyCell(c.PolicyId, apiproto.AccountID(id)))
	}
	p.Table(t)
}
