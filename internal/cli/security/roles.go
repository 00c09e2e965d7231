package security

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/cluster"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/cli/usage"
	"github.com/quorate/quorate/internal/phrase"
)

// NewRolesCommand returns "quorate roles".
func NewRolesCommand() *cobra.Command {
	return usage.Group("roles", "Manage roles and permissions",
		`Bind roles, or single permissions, to identities: everywhere, in one namespace,
or in one realm of durable quotas. Access is denied by default.`,
		newRolesBindCommand(), newRolesUnbindCommand(), newRolesListCommand(), newRolesShowCommand())
}

// scopeFlags limit a binding to a namespace or a realm.
type scopeFlags struct{ namespace, realm string }

func (s *scopeFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.namespace, "namespace", "", "only in this namespace (default: everywhere)")
	cmd.Flags().StringVar(&s.realm, "realm", "", "only in this realm, such as project:infra")
}

func (s *scopeFlags) scope() (string, error) {
	switch {
	case s.namespace != "" && s.realm != "":
		return "", exit.Usagef("--namespace and --realm: give one of them, or bind twice")
	case s.namespace != "":
		return "namespace:" + s.namespace, nil
	case s.realm != "":
		return "realm:" + s.realm, nil
	}
	return "*", nil
}

// inScope formats a scope for the end of a sentence.
func inScope(scope string) string {
	if scope == "*" || scope == "" {
		return "everywhere"
	}
	return "in " + strings.Replace(scope, ":", " ", 1)
}

func newRolesBindCommand() *cobra.Command {
	var t remote.Targets
	var s scopeFlags
	var permissions []string
	var output render.Output
	cmd := &cobra.Command{
		Use:   "bind IDENTITY [ROLE]",
		Short: "Grant a role or permissions to an identity",
		Long: `Grant a role, or single permissions, to an identity: client:NAME, node:ID,
token:NAME, user:NAME and group:NAME (of JWTs), dns:NAME, or a SPIFFE id; user:*
is every identity of a kind, and "*" is every caller, authenticated or not. When
the command returns, all connected nodes apply the change.`,
		Example: `  quorate roles bind token:ci limit-writer --namespace web
  quorate roles bind group:sre operator
  quorate roles bind user:ann@example.org --permission limits.read,rates.read
  quorate roles bind client:builds accountant --realm project:infra`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			b := &quoratev1.Binding{Identity: args[0], Permissions: permissions}
			if len(args) > 1 {
				b.Role = args[1]
			}
			if (b.Role == "") == (len(permissions) == 0) {
				return exit.Usagef("roles bind: give a role or --permission; \"quorate roles show\" lists both")
			}
			var err error
			if b.Scope, err = s.scope(); err != nil {
				return err
			}
			res, err := callSecurity(cmd.Context(), &t, quoratev1.SecurityServiceClient.SetBinding, &quoratev1.SetBindingRequest{Binding: b})
			if err != nil {
				return err
			}
			what := "is bound to"
			if !res.Changed {
				what = "was bound already to"
			}
			return output.Printf(cmd, res, "%s %s %s %s", phrase.Show(b.Identity), what, orPermissions(b), inScope(b.Scope))
		},
	}
	t.AddFlags(cmd)
	s.addFlags(cmd)
	cmd.Flags().StringSliceVar(&permissions, "permission", nil, "permissions instead of a role, such as limits.read,rates.read")
	output.AddFlags(cmd, "text", "json")
	return cmd
}

func orPermissions(b *quoratev1.Binding) string {
	if b.Role != "" {
		return b.Role
	}
	return strings.Join(b.Permissions, ",")
}

func newRolesUnbindCommand() *cobra.Command {
	var t remote.Targets
	var s scopeFlags
	var output render.Output
	cmd := &cobra.Command{
		Use:   "unbind IDENTITY [ROLE]",
		Short: "Remove a role or permissions from an identity",
		Long: `Remove a role, or without a role the single permissions, that was bound to an
identity in the same scope.`,
		Example: `  quorate roles unbind token:ci limit-writer --namespace web
  quorate roles unbind user:ann@example.org`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			scope, err := s.scope()
			if err != nil {
				return err
			}
			req := &quoratev1.DeleteBindingRequest{Identity: args[0], Scope: scope}
			what := "its permissions"
			if len(args) > 1 {
				req.Role, what = args[1], args[1]
			}
			res, err := callSecurity(cmd.Context(), &t, quoratev1.SecurityServiceClient.DeleteBinding, req)
			if err != nil {
				return err
			}
			return output.Printf(cmd, res, "%s: %s removed %s", phrase.Show(args[0]), what, inScope(scope))
		},
	}
	t.AddFlags(cmd)
	s.addFlags(cmd)
	output.AddFlags(cmd, "text", "json")
	return cmd
}

func newRolesListCommand() *cobra.Command {
	var t remote.Targets
	var output render.Output
	cmd := &cobra.Command{
		Use:     "list [IDENTITY]",
		Aliases: []string{"get"},
		Short:   "List the bindings of roles",
		Long: `List the bindings: those stored in the cluster, those in the settings of the
node that answers, and the built-in ones. With an identity, only its own.`,
		Example: `  quorate roles list
  quorate roles list token:ci -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &quoratev1.ListBindingsRequest{}
			if len(args) > 0 {
				if req.Identity = args[0]; req.Identity != "*" && !strings.Contains(req.Identity, ":") {
					return exit.Usagef("%q: must be KIND:NAME, such as token:ci, or *; \"quorate roles describe\" prints roles", req.Identity)
				}
			}
			res, err := callSecurity(cmd.Context(), &t, quoratev1.SecurityServiceClient.ListBindings, req)
			if err != nil {
				return err
			}
			return output.Print(cmd, res, func(p *render.Page) { p.TableOr(bindingsTable(res.Bindings), "no bindings") })
		},
	}
	t.AddFlags(cmd)
	output.AddFlags(cmd, "table", "json")
	return cmd
}

func bindingsTable(bindings []*quoratev1.Binding) *render.Table {
	rows := render.NewTable("IDENTITY", "ROLE OR PERMISSIONS", "WHERE", "KEPT IN", "BY")
	for _, b := range bindings {
		where := b.Scope
		if where == "*" {
			where = "everywhere"
		}
		rows.Row(render.Name(b.Identity), orPermissions(b), render.Name(where), strings.ReplaceAll(b.KeptIn, "_", " "), render.NameOrNothing(b.By))
	}
	return rows
}

func newRolesShowCommand() *cobra.Command {
	var t remote.Targets
	var output render.Output
	cmd := &cobra.Command{
		Use:     "show [ROLE...]",
		Aliases: []string{"describe"},
		Short:   "List the roles and their permissions",
		Long: `List all roles, from the weakest to the strongest, or those with the given
names, and their permissions. docs/reference/authorization.md says which call
needs which. "describe" prints each field on its own line.`,
		Example: `  quorate roles show
  quorate roles describe checker`,
		RunE: func(cmd *cobra.Command, args []string) error {
			res, err := callSecurity(cmd.Context(), &t, quoratev1.SecurityServiceClient.ListRoles, &quoratev1.ListRolesRequest{})
			if err != nil {
				return err
			}
			if res.Roles, err = cluster.Named(args, res.Roles, "role", (*quoratev1.Role).GetName); err != nil {
				return err
			}
			rows := render.NewTable("ROLE", "FOR", "PERMISSIONS")
			for _, r := range res.Roles {
				rows.Row(r.Name, r.Summary, strings.Join(r.Permissions, " "))
			}
			return output.Print(cmd, res, func(p *render.Page) { p.Table(rows) })
		},
	}
	t.AddFlags(cmd)
	output.AddFlags(cmd, "table", "json")
	return cmd
}

// NewWhoAmICommand returns "quorate whoami".
func NewWhoAmICommand() *cobra.Command {
	var t remote.Targets
	var output render.Output
	cmd := &cobra.Command{
		Use:   "whoami",
		Short: "Print your identity and permissions",
		Long: `Print your identity, the credential that proves it, and your roles. If
authentication is off, every caller has all permissions, and the output says so.`,
		Example: `  quorate whoami
  quorate whoami --tls-dir ./admin -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			res, err := callSecurity(cmd.Context(), &t, quoratev1.SecurityServiceClient.WhoAmI, &quoratev1.WhoAmIRequest{})
			if err != nil {
				return err
			}
			return output.Print(cmd, res, func(p *render.Page) {
				fmt.Fprintf(p, "%s (credential: %s)\n", phrase.Show(res.Identity), res.Credential)
				switch {
				case !res.Authentication:
					fmt.Fprintln(p, "authentication is off: every caller has all permissions")
				case len(res.Bindings) == 0:
					fmt.Fprintln(p, "no role or permission is bound to you")
				default:
					p.Table(bindingsTable(res.Bindings))
				}
			})
		},
	}
	t.AddFlags(cmd)
	output.AddFlags(cmd, "text", "json")
	return cmd
}
