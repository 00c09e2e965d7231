package accounts

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/metadata"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/cli/usage"
	"github.com/quorate/quorate/internal/phrase"
)

// NewAccountsCommand returns "quorate accounts".
func NewAccountsCommand() *cobra.Command {
	return usage.Group("accounts", "Read and change durable balances",
		`Read and change accounts: balances that are exact, survive failures, and are
never charged twice. These commands use the administration service: if the
nodes' settings have access.grants, the author needs permissions.

An account is named by flags, or in one word:
app~realm~identity~namespace~name~type. Identity and namespace may be empty.`,
		newAccountsApplyCommand(), newAccountsGetCommand(), newAccountsListCommand(), newAccountsRealmsCommand(), newAccountsHistoryCommand())
}

// Identity identifies the caller, for permissions, histories and request ids.
type Identity struct{ render.Change }

// AddFlags adds --author.
func (c *Identity) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.Author, "author", "", "author, for permissions and the history (default: $QUORATE_USER, or the login name)")
}

// Named returns a context whose calls carry the caller's identity.
func (c *Identity) Named(ctx context.Context) (context.Context, error) {
	name := c.Who()
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, exit.Usagef("--author %q: must be printable ASCII, since it travels in a header", name)
	}
	if name == "" {
		return ctx, nil
	}
	return metadata.AppendToOutgoingContext(ctx, "quorate-user", name), nil
}

// callAdmin calls AccountAdminService.
func callAdmin[Request, Response any](ctx context.Context, t *remote.Targets, who Identity, method remote.Method[quoratev1.AccountAdminServiceClient, Request, Response], req *Request) (*Response, error) {
	ctx, err := who.Named(ctx)
	if err != nil {
		return nil, err
	}
	return remote.Invoke(ctx, t, quoratev1.NewAccountAdminServiceClient, method, req)
}

// realmFlags select an application and a realm.
type realmFlags struct{ app, realm string }

func (r *realmFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.app, "app", "", "the application, such as cv")
	cmd.Flags().StringVar(&r.realm, "realm", "", "the realm that administers it, such as project:infra")
}

// need returns an error unless both flags are given.
func (r *realmFlags) need() error {
	switch {
	case r.app == "":
		return exit.Usagef("--app is missing; say which application, such as --app cv; \"quorate accounts realms\" lists them")
	case r.realm == "":
		return exit.Usagef("--realm is missing; say which realm, such as --realm project:infra; \"quorate accounts realms\" lists them")
	}
	return nil
}

func (r *realmFlags) near() account.ConfigID { return account.ConfigID{App: r.app, Realm: r.realm} }

// accountFlags identify one account.
type accountFlags struct {
	realmFlags
	identity, namespace, name, resource string
}

func (a *accountFlags) addFlags(cmd *cobra.Command) {
	a.realmFlags.addFlags(cmd)
	cmd.Flags().StringVar(&a.identity, "identity", "", "owner, such as user:ann (default: none)")
	cmd.Flags().StringVar(&a.namespace, "namespace", "", "its part of the realm; @team|... places accounts together")
	cmd.Flags().StringVar(&a.name, "name", "", "its name")
	cmd.Flags().StringVar(&a.resource, "type", "", "type of the units, such as builds")
}

// partFlags are the flags for the parts of an account's one-word form, after the realm.
var partFlags = []string{"identity", "namespace", "name", "type"}

// allFlags are the flags for all parts.
var allFlags = append([]string{"app", "realm"}, partFlags...)

// ids parses accounts, one word each. Without words it uses the account that the flags identify.
func (a *accountFlags) ids(cmd *cobra.Command, words []string) ([]account.ID, error) {
	if len(words) == 0 {
		if err := a.need(); err != nil {
			return nil, err
		}
		id := account.ID{App: a.app, Realm: a.realm, Identity: a.identity, Namespace: a.namespace, Name: a.name, Resource: a.resource}
		if err := id.Validate(); err != nil {
			return nil, exit.Usagef("--%w", flagWords(err))
		}
		return []account.ID{id}, nil
	}
	for _, name := range allFlags {
		if cmd.Flags().Changed(name) {
			return nil, exit.Usagef("--%s and %s: name the account by flags or in one word, %s", name, phrase.Show(words[0]), config.AccountIDForm)
		}
	}
	if len(words) > account.MaxOps {
		return nil, exit.Usagef("%d accounts: at most %d in one call", len(words), account.MaxOps)
	}
	ids := make([]account.ID, len(words))
	for i, word := range words {
		var err error
		if ids[i], err = config.ParseAccountID(word); err != nil {
			return nil, exit.Usagef("account %w", err)
		}
	}
	return ids, nil
}

// flagWords replaces the field in an error with the name of its flag.
func flagWords(err error) error {
	field, detail, _ := strings.Cut(err.Error(), ": ")
	return exit.Usagef("%s: %s", strings.NewReplacer("policy_id.key.resource_type", "policy", "app_id", "app", "resource_type", "type").Replace(field), detail)
}

// accountWord formats an id as one word that is safe for a terminal.
func accountWord(p *quoratev1.AccountID) string {
	return phrase.Printable(config.FormatAccountID(account.ID{App: p.GetAppId(), Realm: p.GetRealm(), Identity: p.GetIdentity(), Namespace: p.GetNamespace(), Name: p.GetName(), Resource: p.GetResourceType()}))
}

// policyCell returns a policy as one word, in which people see a hash shortened.
func policyCell(p *quoratev1.PolicyID, near *quoratev1.AccountID) render.Cell {
	if p == nil {
		return render.NameOrNothing("")
	}
	c, k := p.GetConfig(), p.GetKey()
	ref := account.PolicyRef{
		Config: account.ConfigID{App: c.GetAppId(), Realm: c.GetRealm(), Version: c.GetVersion()},
		Key:    account.PolicyKey{Namespace: k.GetNamespace(), Name: k.GetName(), Resource: k.GetResourceType()},
	}
	in := account.ConfigID{App: near.GetAppId(), Realm: near.GetRealm()}
	cell := render.Cell{Machine: config.FormatPolicyRef(ref, in), Text: true}
	const most = 12
	if v := ref.Config.Version; len(v) > most && v[0] == '$' {
		ref.Config.Version = v[:most] + "..."
	}
	cell.Human = phrase.Printable(config.FormatPolicyRef(ref, in))
	return cell
}
