package accounts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/limits"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/cli/usage"
	"github.com/quorate/quorate/internal/phrase"
)

// NewPoliciesCommand returns "quorate policies".
func NewPoliciesCommand() *cobra.Command {
	return usage.Group("policies", "Load, read and purge the policies of accounts",
		`Load, read and purge policy configs: groups of policies for accounts, which are
immutable once loaded. These commands use the administration service: if the
nodes' settings have access.grants, the author needs permissions.`,
		newPoliciesLoadCommand(), newPoliciesGetCommand(), newPoliciesListCommand(), newPoliciesPurgeCommand())
}

func newPoliciesLoadCommand() *cobra.Command {
	var t remote.Targets
	var who Identity
	var r realmFlags
	var output render.Output
	var version string
	cmd := &cobra.Command{
		Use:   "load --app APP --realm REALM FILE",
		Short: "Load the policies of a file",
		Long: `Load the policies of a file, YAML or JSON ("-": standard input), as one config.
Its version is a hash of the content, so loading the same policies again changes
nothing, or a name that you choose with --version. A loaded config never
changes: exit code 3 means that the version exists with other policies. -o
version prints the version alone, for scripts.`,
		Example: `  quorate policies load --app cv --realm project:infra examples/accounts/policies.yaml
  quorate policies load --app cv --realm project:infra policies.yaml -o version > version.txt
  quorate policies load --app cv --realm project:infra policies.yaml --version 2026-11`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := r.need(); err != nil {
				return err
			}
			data, err := limits.ReadInput(args[0], cmd.InOrStdin(), config.MaxFileBytes)
			if err != nil {
				return err
			}
			policies, err := config.ParsePolicies(args[0], data)
			if err != nil {
				return exit.Invalid(err)
			}
			return loadPolicies(cmd, &t, who, &quoratev1.LoadPoliciesRequest{AppId: r.app, Realm: r.realm, Version: version, Config: policiesProto(policies)}, &output)
		},
	}
	t.AddFlags(cmd)
	who.AddFlags(cmd)
	r.addFlags(cmd)
	cmd.Flags().StringVar(&version, "version", "", "name for this version (default: a hash of the policies)")
	output.AddFlags(cmd, "text", "json", "version")
	return cmd
}

func loadPolicies(cmd *cobra.Command, t *remote.Targets, who Identity, req *quoratev1.LoadPoliciesRequest, output *render.Output) error {
	defer t.ReuseConns()()
	res, err := callAdmin(cmd.Context(), t, who, quoratev1.AccountAdminServiceClient.WritePolicies, req)
	if err != nil {
		return err
	}
	if err := sameContent(cmd, t, who, req, res); err != nil {
		return err
	}
	if output.Format == "version" {
		return output.Printf(cmd, res, "%s", res.Id.GetVersion())
	}
	what := "loaded"
	if !res.Created {
		what = "already loaded"
	}
	return output.Printf(cmd, res, "%s: %s %s", configWord(res.Id), phrase.Plural(len(req.Config.Policies), "policy"), what)
}

// sameContent returns a conflict if the caller's own version was loaded before with other policies.
// It skips the check for callers without permission to read policies.
func sameContent(cmd *cobra.Command, t *remote.Targets, who Identity, req *quoratev1.LoadPoliciesRequest, res *quoratev1.LoadPoliciesResponse) error {
	if res.Created || req.Version == "" {
		return nil
	}
	there, err := fetchPolicies(cmd.Context(), t, who, res.Id)
	if err != nil {
		if exit.CodeOf(err) == exit.Denied {
			return nil
		}
		return err
	}
	if maps.Equal(policiesFrom(there.Config), policiesFrom(req.Config)) {
		return nil
	}
	return exit.Errorf(exit.Conflict, "%s exists with other policies, loaded by %s at %s; a loaded version never changes: choose another",
		configWord(res.Id), render.OrDash(there.By), render.When(there.LoadedAt))
}

func fetchPolicies(ctx context.Context, t *remote.Targets, who Identity, id *quoratev1.PolicyConfigID) (res *quoratev1.GetPoliciesResponse, err error) {
	return callAdmin(ctx, t, who, quoratev1.AccountAdminServiceClient.GetPolicies, &quoratev1.GetPoliciesRequest{Id: id})
}

func policiesProto(policies map[account.PolicyKey]account.Policy) *quoratev1.PolicyConfig {
	out := &quoratev1.PolicyConfig{}
	for k, p := range policies {
		one := &quoratev1.Policy{Default: uint64(p.Default), Limit: uint64(p.Limit), Options: int32(p.Options)}
		if p.Refill != (account.Refill{}) {
			one.Refill = &quoratev1.Refill{Units: p.Refill.Units, Interval: p.Refill.Interval, Offset: p.Refill.Offset}
		}
		if p.Lifetime > 0 {
			one.Lifetime = durationpb.New(p.Lifetime)
		}
		out.Policies = append(out.Policies, &quoratev1.PolicyEntry{Key: &quoratev1.PolicyKey{Namespace: k.Namespace, Name: k.Name, ResourceType: k.Resource}, Policy: one})
	}
	return out
}

// policiesFrom converts policies from a node.
func policiesFrom(c *quoratev1.PolicyConfig) map[account.PolicyKey]account.Policy {
	out := map[account.PolicyKey]account.Policy{}
	for _, e := range c.GetPolicies() {
		k, p := e.GetKey(), e.GetPolicy()
		r := p.GetRefill()
		out[account.PolicyKey{Namespace: k.GetNamespace(), Name: k.GetName(), Resource: k.GetResourceType()}] = account.Policy{
			Default: int64(p.GetDefault()), Limit: int64(p.GetLimit()), Options: account.PolicyOptions(p.GetOptions()),
			Refill:   account.Refill{Units: r.GetUnits(), Interval: r.GetInterval(), Offset: r.GetOffset()},
			Lifetime: p.GetLifetime().AsDuration(),
		}
	}
	return out
}

func configWord(p *quoratev1.PolicyConfigID) string {
	return phrase.Printable(config.FormatConfigID(account.ConfigID{App: p.GetAppId(), Realm: p.GetRealm(), Version: p.GetVersion()}))
}

// configID parses a config's id. If it is only a version, the flags supply app and realm.
func (r *realmFlags) configID(word string) (*quoratev1.PolicyConfigID, error) {
	if !strings.Contains(word, "~") {
		if err := r.need(); err != nil {
			return nil, err
		}
	} else if r.app != "" || r.realm != "" {
		return nil, exit.Usagef("--app, --realm and %s: name the config by flags or in one word, %s", phrase.Show(word), config.ConfigIDForm)
	}
	id, err := config.ParseConfigID(word, r.near())
	if err != nil {
		return nil, exit.Usagef("policies %w", err)
	}
	return &quoratev1.PolicyConfigID{AppId: id.App, Realm: id.Realm, Version: id.Version}, nil
}

func newPoliciesGetCommand() *cobra.Command {
	var t remote.Targets
	var who Identity
	var r realmFlags
	var output render.Output
	cmd := &cobra.Command{
		Use:     "get VERSION",
		Aliases: []string{"describe"},
		Short:   "Print the policies of a config",
		Long: `Print the policies of a config: its version with --app and --realm, or
app~realm~version in one word. -o yaml is a file for "quorate policies load".`,
		Example: `  quorate policies get --app cv --realm project:infra '$hash'
  quorate policies get cv~project:infra~#2026-11 -o yaml > policies.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := r.configID(args[0])
			if err != nil {
				return err
			}
			res, err := fetchPolicies(cmd.Context(), &t, who, id)
			if err != nil {
				return err
			}
			if output.Format == render.FormatYAML {
				_, err := cmd.OutOrStdout().Write(config.FormatPolicies(policiesFrom(res.Config)))
				return err
			}
			return output.Print(cmd, res, func(p *render.Page) { printPolicies(p, res) })
		},
	}
	t.AddFlags(cmd)
	who.AddFlags(cmd)
	r.addFlags(cmd)
	output.AddFlags(cmd, "table", "json", "yaml")
	return cmd
}

func printPolicies(page *render.Page, res *quoratev1.GetPoliciesResponse) {
	t := render.NewTable("NAMESPACE", "NAME", "TYPE", "DEFAULT", "LIMIT", "REFILL", "LIFETIME", "OPTIONS")
	for _, e := range res.Config.GetPolicies() {
		k, p := e.GetKey(), e.GetPolicy()
		lifetime, options := "-", "-"
		if p.GetLifetime() != nil {
			lifetime = phrase.Days(p.Lifetime.AsDuration())
		}
		if p.GetOptions()&int32(account.AbsoluteResource) != 0 {
			options = "absolute_resource"
		}
		t.Row(render.NameOrNothing(k.GetNamespace()), render.Name(k.GetName()), render.Name(k.GetResourceType()), int64(p.GetDefault()), int64(p.GetLimit()), refillText(p.GetRefill()), lifetime, options)
	}
	page.Table(t)
}

// refillText formats a refill: 10 every 1d from 6h.
func refillText(r *quoratev1.Refill) string {
	switch {
	case r.GetUnits() == 0:
		return "-"
	case r.Interval == 0:
		return "always full"
	}
	text := fmt.Sprintf("%d every %s", r.Units, phrase.Days(time.Duration(r.Interval)*time.Second))
	if r.Offset > 0 {
		text += " from " + phrase.Days(time.Duration(r.Offset)*time.Second)
	}
	return text
}

func newPoliciesListCommand() *cobra.Command {
	var t remote.Targets
	var who Identity
	var r realmFlags
	var output render.Output
	var most int
	cmd := &cobra.Command{
		Use:   "list --app APP --realm REALM",
		Short: "Print the policy configs of a realm",
		Long: `Print the versions of the policy configs of a realm, how many policies each has,
when it was loaded, and by whom. The first 100 are printed unless --max is given
(0: all).`,
		Example: `  quorate policies list --app cv --realm project:infra
  quorate policies list --app cv --realm project:infra --max 0 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := r.need(); err != nil {
				return err
			}
			if most < 0 {
				return exit.Usagef("--max %d: must be 0 (all) or more", most)
			}
			return listPolicies(cmd, &t, who, &quoratev1.ListPoliciesRequest{AppId: r.app, Realm: r.realm}, most, &output)
		},
	}
	t.AddFlags(cmd)
	who.AddFlags(cmd)
	r.addFlags(cmd)
	cmd.Flags().IntVar(&most, "max", accountsShown, "how many to print; 0 is all")
	output.AddFlags(cmd, "table", "json")
	return cmd
}

func listPolicies(cmd *cobra.Command, t *remote.Targets, who Identity, req *quoratev1.ListPoliciesRequest, most int, output *render.Output) error {
	defer t.ReuseConns()()
	tbl := render.NewTable("VERSION", "POLICIES", "LOADED", "BY")
	return printPages(cmd, output.List(cmd, "policies", "no policies", tbl), most, func(size int32) ([]proto.Message, string, error) {
		req.PageSize = size
		res, err := callAdmin(cmd.Context(), t, who, quoratev1.AccountAdminServiceClient.ListPolicies, req)
		if err != nil {
			return nil, "", err
		}
		req.PageToken = res.NextPageToken
		var out []proto.Message
		for _, p := range res.Policies {
			out = append(out, p)
			tbl.Row(phrase.Printable(p.GetId().GetVersion()), p.Policies, render.When(p.LoadedAt), render.NameOrNothing(p.By))
		}
		return out, res.NextPageToken, nil
	})
}

func newPoliciesPurgeCommand() *cobra.Command {
	var t remote.Targets
	var who Identity
	var r realmFlags
	var yes bool
	var output render.Output
	cmd := &cobra.Command{
		Use:   "purge VERSION",
		Short: "Delete a policy config that is no longer in use",
		Long: `Delete a policy config. Accounts that have a policy of it keep their copy; new
operations that name one of its policies fail. Exit code 5 means that it is
unknown.`,
		Example: `  quorate policies purge --app cv --realm project:infra '$hash'
  quorate policies purge cv~project:infra~#2026-10 --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := r.configID(args[0])
			if err != nil {
				return err
			}
			if err := render.Confirm(cmd, yes, fmt.Sprintf("Purge %s? Operations that name its policies will fail.", configWord(id))); err != nil {
				return err
			}
			res, err := callAdmin(cmd.Context(), &t, who, quoratev1.AccountAdminServiceClient.PurgePolicies, &quoratev1.PurgePoliciesRequest{Id: id})
			if err != nil {
				return err
			}
			if !res.Purged {
				return exit.NotFoundf("%w %s", errNoPolicies, configWord(id))
			}
			return output.Printf(cmd, res, "%s purged", configWord(id))
		},
	}
	t.AddFlags(cmd)
	who.AddFlags(cmd)
	r.addFlags(cmd)
	render.YesFlag(cmd, &yes)
	output.AddFlags(cmd, "text", "json")
	return cmd
}

var errNoPolicies = errors.New("unknown policy config")
