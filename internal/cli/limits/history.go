package limits

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
)

func newLimitsHistoryCommand() *cobra.Command {
	var t remote.Targets
	var output render.Output
	var most int
	var before uint64
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Print the versions of the limits: author, time, comment",
		Long: `Print the versions of the limits, newest first: who made each, when (UTC), why,
how many limits it has, and how many it added (+), changed (~) and removed (-).
"quorate limits diff N M" shows what differs, "quorate limits rollback N"
restores a version.`,
		Example: `  quorate limits history
  quorate limits history --max 5
  quorate limits history --max 100 --before 50 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if most < 0 {
				return exit.Usagef("--max %d: must be 0 (all) or more", most)
			}
			if most == 0 || most > apiproto.MaxList { // the history has no more
				most = apiproto.MaxList
			}
			res, err := callLimits(cmd.Context(), &t, quoratev1.LimitServiceClient.ListVersions, &quoratev1.ListVersionsRequest{Before: before, Max: int32(most)})
			if err != nil {
				return err
			}
			return output.Print(cmd, res, func(p *render.Page) { printVersions(p, res.Versions) })
		},
	}
	t.AddFlags(cmd)
	cmd.Flags().IntVar(&most, "max", 20, "how many to print; 0 is all")
	cmd.Flags().Uint64Var(&before, "before", 0, "only versions below this one")
	output.AddFlags(cmd, "table", "json")
	return cmd
}

func printVersions(p *render.Page, versions []*quoratev1.LimitVersion) {
	tbl := render.NewTable("VERSION", "WHEN", "WHO", "LIMITS", "+", "~", "-", "COMMENT")
	tbl.CSVTitle("+", "added")
	tbl.CSVTitle("~", "changed")
	tbl.CSVTitle("-", "removed")
	for _, v := range versions {
		comment := v.Comment
		if v.RollbackTo > 0 {
			comment = strings.TrimSuffix(fmt.Sprintf("[back to %d] %s", v.RollbackTo, comment), " ")
		}
		tbl.Row(v.Version, render.When(v.At), render.NameOrNothing(v.Author), v.Limits, v.Added, v.Changed, v.Removed, render.NameOrNothing(comment))
	}
	p.TableOr(tbl, "no versions yet")
}

func newLimitsRollbackCommand() *cobra.Command {
	var t remote.Targets
	var c render.Change
	var output render.Output
	cmd := &cobra.Command{
		Use:   "rollback VERSION",
		Short: "Restore the limits of an earlier version, as a new version",
		Long: `Restore the limits of an earlier version, as a new version: nothing is removed
from the history, and a rollback can be rolled back. No bucket is refilled.`,
		Example: `  quorate limits rollback 3 --comment "the shop was slow"
  quorate limits rollback 3 --expected-version 5`,
		Args: cobra.ExactArgs(1),
	}
	expect := render.ExpectFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		number, err := strconv.ParseUint(args[0], 10, 64)
		if err != nil || number == 0 {
			return exit.Usagef("version %q: must be a number from 1 on; \"quorate limits history\" lists them", args[0])
		}
		res, err := callLimits(cmd.Context(), &t, quoratev1.LimitServiceClient.RollbackLimits, &quoratev1.RollbackLimitsRequest{Version: number, ExpectedVersion: expect(), Comment: c.Comment, Author: c.Who()})
		if err != nil {
			return err
		}
		return output.Print(cmd, res, func(p *render.Page) {
			if !res.Changed {
				fmt.Fprintf(p, "limits unchanged: version %d has those of version %d\n", res.Version, number)
				return
			}
			changes := changesOf(cmd.Context(), &t, res.Version)
			printBriefly(p, render.Colours(cmd), changes)
			fmt.Fprintf(p, "limits rolled back to version %d: version %d (%s)\n", number, res.Version, countChanges(changes))
		})
	}
	t.AddFlags(cmd)
	c.AddFlags(cmd)
	output.AddFlags(cmd, "text", "json")
	return cmd
}

func newLimitsDeleteCommand() *cobra.Command {
	var t remote.Targets
	var c render.Change
	var output render.Output
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete NAME...",
		Short: "Remove single limits",
		Long: `Remove single limits, named as namespace/limit: all of them or, if one does not
exist, none. Their requests then use the namespace's template or default, if
it has one.

The command asks before it removes anything, and removes nothing if another
change came first (exit code 3).`,
		Example: `  quorate limits delete web/login
  quorate limits delete web/login web/search --yes --comment "the old shop is gone"`,
		Args: cobra.MinimumNArgs(1),
	}
	expect := render.ExpectFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req := &quoratev1.DeleteLimitsRequest{ExpectedVersion: expect(), Comment: c.Comment, Author: c.Who()}
		slices.Sort(args)
		args = slices.Compact(args)
		for _, a := range args {
			n, err := parseName(a)
			if err != nil {
				return err
			}
			req.Limits = append(req.Limits, &quoratev1.LimitRef{Namespace: n.Namespace, Limit: n.Limit})
		}
		if err := confirmDelete(cmd, &t, req, args, yes); err != nil {
			return err
		}
		res, err := callLimits(cmd.Context(), &t, quoratev1.LimitServiceClient.DeleteLimits, req)
		if err != nil {
			return err
		}
		return output.Printf(cmd, res, "%s removed: version %d", phrase.Plural(len(args), "limit"), res.Version)
	}
	t.AddFlags(cmd)
	c.AddFlags(cmd)
	render.YesFlag(cmd, &yes)
	output.AddFlags(cmd, "text", "json")
	return cmd
}

// confirmDelete shows the limits to delete and asks for confirmation. It makes the request expect
// the version that it showed.
func confirmDelete(cmd *cobra.Command, t *remote.Targets, req *quoratev1.DeleteLimitsRequest, names choice, yes bool) error {
	if len(names) > apiproto.MaxList {
		return exit.Usagef("%d limits: at most %d in one call", len(names), apiproto.MaxList)
	}
	now, err := GetLimits(cmd.Context(), t, nil)
	if err != nil {
		return err
	}
	if err := names.missing(now.Limits); err != nil {
		return err
	}
	if req.ExpectedVersion == nil {
		req.ExpectedVersion = &now.Version
	}
	if !yes && render.OnTerminal(cmd.InOrStdin()) {
		now.Limits = slices.DeleteFunc(now.Limits, func(l *quoratev1.Limit) bool { return !names.has(l.Namespace, l.Name) })
		if err := render.WritePage(cmd.ErrOrStderr(), func(p *render.Page) { printLimits(p, now, false) }); err != nil {
			return err
		}
	}
	return render.Confirm(cmd, yes, fmt.Sprintf("Remove %s of version %d?", phrase.Plural(len(names), "limit"), now.Version))
}
