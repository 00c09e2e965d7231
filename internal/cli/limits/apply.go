package limits

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
)

func newLimitsApplyCommand() *cobra.Command {
	var t remote.Targets
	var c render.Change
	var output render.Output
	var dry, yes bool
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Replace all limits with those of a limit file",
		Long: `Replace all limits of the cluster with those of a limit file ("-": standard
input), and print the changes. The file is checked first: if it has faults, each
is printed with its line and column, and the old limits stay active. A change
refills no bucket.

Limits that the file lacks are removed. Before that, the command asks on a
terminal, and elsewhere requires --yes. Limits of namespaces that you can
neither read nor write do not change.

With --expected-version, nothing changes if another change came first: that is a
conflict, exit code 3. Findings of the linter are printed as warnings.`,
		Example: `  quorate limits apply examples/limits.yaml --comment "more for the shop"
  quorate limits apply limits.yaml --expected-version 3
  quorate limits apply limits.yaml --dry-run
  quorate limits apply only-these.yaml --yes
  quorate limits apply - < limits.yaml`,
		Args: cobra.ExactArgs(1),
	}
	expect := render.ExpectFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		data, err := ReadInput(args[0], cmd.InOrStdin(), apiproto.MaxLimitsFile)
		if err != nil {
			return err
		}
		req := &quoratev1.ApplyLimitsRequest{
			Yaml: string(data), Source: args[0], ExpectedVersion: expect(), Comment: c.Comment, Author: c.Who(), DryRun: dry,
		}
		apply := applyAsked
		if dry || yes {
			apply = func(cmd *cobra.Command, t *remote.Targets, req *quoratev1.ApplyLimitsRequest) (*quoratev1.ApplyLimitsResponse, error) {
				return applyText(cmd.Context(), t, req)
			}
		}
		res, err := apply(cmd, &t, req)
		if err != nil {
			return err
		}
		return output.Print(cmd, res, func(p *render.Page) {
			for _, f := range res.Findings {
				fmt.Fprintf(cmd.ErrOrStderr(), "quorate: warning: %s: %s\n", args[0], f)
			}
			printApplied(p, cmd, &t, res, dry)
		})
	}
	t.AddFlags(cmd)
	c.AddFlags(cmd)
	render.YesFlag(cmd, &yes)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the changes, without applying them")
	output.AddFlags(cmd, "text", "json")
	return cmd
}

// applyTries bounds the attempts to compare and apply a file while other users change the limits.
const (
	applyTries = 3
	applyPause = 100 * time.Millisecond // lets a node learn of a new version
)

// applyAsked applies a file, and asks for confirmation before it removes limits. It applies only to
// the version that it compared with; if that changes before it applies, it asks again.
func applyAsked(cmd *cobra.Command, t *remote.Targets, req *quoratev1.ApplyLimitsRequest) (*quoratev1.ApplyLimitsResponse, error) {
	ctx, named := cmd.Context(), req.ExpectedVersion
	for try := 1; ; try++ {
		req.DryRun, req.ExpectedVersion = true, named
		plan, err := applyText(ctx, t, req)
		if err != nil {
			return nil, err
		}
		if err := confirmRemoval(cmd, req.Source, plan); err != nil {
			return nil, err
		}
		req.DryRun, req.ExpectedVersion = false, &plan.Version
		res, err := applyText(ctx, t, req)
		if err == nil || named != nil || try == applyTries || exit.CodeOf(err) != exit.Conflict {
			return res, err
		}
		if backoff.Sleep(ctx, applyPause) != nil {
			return nil, ctx.Err()
		}
	}
}

// confirmRemoval asks for confirmation to remove the limits that are not in the file.
func confirmRemoval(cmd *cobra.Command, source string, plan *quoratev1.ApplyLimitsResponse) error {
	var gone []string
	for _, c := range plan.Changes {
		if c.Kind == quoratev1.ChangeKind_CHANGE_KIND_REMOVED {
			gone = append(gone, phrase.Show(c.Namespace+"/"+c.Limit))
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return render.Confirm(cmd, false, fmt.Sprintf("%s replaces all limits and would remove %s of version %d: %s. Apply it?",
		source, phrase.Plural(len(gone), "limit"), plan.Version, firstFew(gone)))
}

// firstFew lists the first few names.
func firstFew(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func printApplied(p *render.Page, cmd *cobra.Command, t *remote.Targets, res *quoratev1.ApplyLimitsResponse, dry bool) {
	changes := res.Changes
	if res.Changed && !dry {
		changes = changesOf(cmd.Context(), t, res.Version)
	}
	if dry {
		printChanges(p, render.Colours(cmd), changes)
	} else {
		printBriefly(p, render.Colours(cmd), changes)
	}
	word := "unchanged"
	switch {
	case res.Changed && dry:
		fmt.Fprintf(p, "limits would change: %s; the active version is %d\n", countChanges(changes), res.Version)
		return
	case res.Changed:
		word = "applied"
	}
	sum := ""
	if len(changes) > 0 {
		sum = " (" + countChanges(changes) + ")"
	}
	fmt.Fprintf(p, "limits %s: version %d%s\n", word, res.Version, sum)
}

// changesOf compares a version with its predecessor. It returns nil if the comparison fails,
// because the version is applied anyway.
func changesOf(ctx context.Context, t *remote.Targets, version uint64) []*quoratev1.LimitChange {
	before := version - 1
	from := &quoratev1.LimitSet{Version: &before}
	if before == 0 { // the state before the first limits
		from = &quoratev1.LimitSet{Yaml: string(config.FormatLimits(nil)), Source: "no limits"}
	}
	res, err := diffLimits(ctx, t, from, &quoratev1.LimitSet{Version: &version})
	if err != nil {
		return nil
	}
	return res.Changes
}
