package limits

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/quota"
)

// overridesShown bounds the overrides in the output by default.
const overridesShown = 100

func newOverridesGetCommand() *cobra.Command {
	var t remote.Targets
	var output render.Output
	var most int
	cmd := &cobra.Command{
		Use:     "get [NAMESPACE[/LIMIT] [KEY]]",
		Aliases: []string{"list", "describe"},
		Short:   "Print overrides",
		Long: `Print the overrides of the cluster, of a namespace, of a limit or of one key, in
order of namespace, limit and key. The first 100 are printed unless --max is
given (0: all). -o yaml is a file for "quorate overrides apply".`,
		Example: `  quorate overrides get
  quorate overrides get api/per_tenant acme
  quorate overrides get api --max 0 -o yaml > overrides.yaml`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if most < 0 {
				return exit.Usagef("--max %d: must be 0 (all) or more", most)
			}
			if len(args) == 2 {
				return getOverride(cmd, &t, args[0], args[1], &output)
			}
			req := &quoratev1.ListOverridesRequest{}
			if len(args) == 1 {
				var err error
				if req.Namespace, req.Limit, err = ParseScope(args[0]); err != nil {
					return err
				}
			}
			return listOverrides(cmd, &t, req, most, &output)
		},
	}
	t.AddFlags(cmd)
	cmd.Flags().IntVar(&most, "max", overridesShown, "how many to print; 0 is all")
	output.AddFlags(cmd, "table", "json", "yaml")
	return cmd
}

func getOverride(cmd *cobra.Command, t *remote.Targets, limit, key string, output *render.Output) error {
	k, err := ParseKey(limit, key)
	if err != nil {
		return err
	}
	res, err := callOverrides(cmd.Context(), t, quoratev1.OverrideServiceClient.GetOverride, &quoratev1.GetOverrideRequest{Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key})
	if err != nil {
		return err
	}
	list := []*quoratev1.Override{res.Override}
	if output.Format == render.FormatYAML {
		return writeOverrideFile(cmd.OutOrStdout(), list, true)
	}
	return output.Print(cmd, res.Override, func(p *render.Page) {
		tbl := newOverrideTable()
		addOverrides(tbl, list)
		p.Table(tbl)
	})
}

// listOverrides fetches and prints overrides page by page.
func listOverrides(cmd *cobra.Command, t *remote.Targets, req *quoratev1.ListOverridesRequest, most int, output *render.Output) error {
	defer t.ReuseConns()()
	tbl := newOverrideTable()
	pages := output.List(cmd, "overrides", "no overrides", tbl)
	file := output.Format == render.FormatYAML
	shown := 0
	for {
		req.Max = apiproto.MaxList
		if most > 0 {
			req.Max = int32(min(most-shown, apiproto.MaxList))
		}
		res, err := callOverrides(cmd.Context(), t, quoratev1.OverrideServiceClient.ListOverrides, req)
		if err != nil {
			return err
		}
		if res.Total == 0 && req.Namespace != "" {
			if err := CheckScope(cmd.Context(), t, strings.TrimSuffix(req.Namespace+"/"+req.Limit, "/")); err != nil {
				return err
			}
		}
		if file {
			err = writeOverrideFile(cmd.OutOrStdout(), res.Overrides, shown == 0)
		} else {
			items := make([]proto.Message, len(res.Overrides))
			for i, o := range res.Overrides {
				items[i] = o
			}
			addOverrides(tbl, res.Overrides)
			err = pages.Add(items)
		}
		if err != nil {
			return err
		}
		shown += len(res.Overrides)
		if req.After = res.Next; res.Next != "" && len(res.Overrides) > 0 && (most == 0 || shown < most) {
			continue
		}
		if shown < int(res.Total) {
			fmt.Fprintf(cmd.ErrOrStderr(), "quorate: %d of %d are shown; --max 0 shows all\n", shown, res.Total)
		}
		if file {
			return nil
		}
		return pages.End(fmt.Sprintf(`"total":%d`, res.Total))
	}
}

func newOverrideTable() *render.Table {
	return render.NewTable("LIMIT", "KEY", "OVERRIDE", "BY", "COMMENT")
}

func addOverrides(tbl *render.Table, list []*quoratev1.Override) {
	for _, o := range list {
		tbl.Row(render.Name(o.Namespace+"/"+o.Limit), render.Name(o.Key), OverrideText(o), render.NameOrNothing(o.Author), render.NameOrNothing(o.Comment))
	}
}

// writeOverrideFile writes overrides as a file for "overrides apply", or as a later piece of one.
func writeOverrideFile(w io.Writer, list []*quoratev1.Override, first bool) error {
	out := make([]quota.Override, len(list))
	for i, o := range list {
		var err error
		if out[i], err = overrideOf(o); err != nil {
			return exit.With(exit.Fault, err)
		}
	}
	text := config.FormatOverrides(out)
	if !first {
		if len(list) == 0 {
			return nil
		}
		text = text[bytes.Index(text, []byte("overrides:\n"))+len("overrides:\n"):]
	}
	_, err := w.Write(text)
	return err
}
