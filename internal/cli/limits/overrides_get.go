package limits

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/quota"
)

// overridesShown is how many overrides are printed unless more are asked for.
const overridesShown = 100

func newOverridesGetCommand() *cobra.Command {
	var t remote.Targets
	var output string
	var most int
	cmd := &cobra.Command{
		Use:   "get [NAMESPACE[/LIMIT] [KEY]]",
		Short: "Print overrides",
		Long: `Print the overrides of the cluster, of a namespace, of a limit or of one key, in
order of namespace, limit and key. There may be a million: the first 100 are
printed, and --max says how many instead, 0 all of them; they are fetched and
printed in pages. -o yaml is a file for "quorate overrides apply".`,
		Example: `  quorate overrides get
  quorate overrides get api/per_tenant acme
  quorate overrides get api --max 0 -o yaml > overrides.yaml`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if most < 0 {
				return exit.Usagef("--max %d: must be 0 (all) or more", most)
			}
			p := &overridePrinter{w: cmd.OutOrStdout(), output: output}
			if len(args) == 2 {
				return getOverride(cmd.Context(), &t, args[0], args[1], p)
			}
			req := &quoratev1.ListOverridesRequest{}
			if len(args) == 1 {
				var err error
				if req.Namespace, req.Limit, err = ParseScope(args[0]); err != nil {
					return err
				}
			}
			return listOverrides(cmd, &t, req, most, p)
		},
	}
	t.AddFlags(cmd)
	cmd.Flags().IntVar(&most, "max", overridesShown, "how many to print; 0 is all")
	render.OutputFlag(cmd, &output, "table", "json", "yaml")
	return cmd
}

func getOverride(ctx context.Context, t *remote.Targets, limit, key string, p *overridePrinter) error {
	k, err := ParseKey(limit, key)
	if err != nil {
		return err
	}
	var res *quoratev1.GetOverrideResponse
	err = callOverrides(ctx, t, func(ctx context.Context, c quoratev1.OverrideServiceClient) (err error) {
		res, err = c.GetOverride(ctx, &quoratev1.GetOverrideRequest{Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key})
		return err
	})
	if err != nil {
		return err
	}
	if p.output == "json" {
		_, err = fmt.Fprintf(p.w, "%s\n", api.FormatJSON(res.Override))
		return err
	}
	return p.page([]*quoratev1.Override{res.Override})
}

// listOverrides fetches and prints page by page.
func listOverrides(cmd *cobra.Command, t *remote.Targets, req *quoratev1.ListOverridesRequest, most int, p *overridePrinter) error {
	defer t.Keep()()
	shown := 0
	for {
		req.Max = api.MaxList
		if most > 0 {
			req.Max = int32(min(most-shown, api.MaxList))
		}
		var res *quoratev1.ListOverridesResponse
		err := callOverrides(cmd.Context(), t, func(ctx context.Context, c quoratev1.OverrideServiceClient) (err error) {
			res, err = c.ListOverrides(ctx, req)
			return err
		})
		if err != nil {
			return err
		}
		if err := p.page(res.Overrides); err != nil {
			return err
		}
		shown += len(res.Overrides)
		if req.After = res.Next; res.Next != "" && len(res.Overrides) > 0 && (most == 0 || shown < most) {
			continue
		}
		if shown < int(res.Total) {
			fmt.Fprintf(cmd.ErrOrStderr(), "quorate: %d of %d are shown; --max 0 shows all\n", shown, res.Total)
		}
		return p.end(res.Total)
	}
}

// overridePrinter prints pages as one whole.
type overridePrinter struct {
	w      io.Writer
	output string
	tbl    *render.Table
	pages  int
}

func (p *overridePrinter) page(list []*quoratev1.Override) error {
	p.pages++
	switch p.output {
	case "json":
		return p.jsonPage(list)
	case "yaml":
		return p.yamlPage(list)
	}
	if p.tbl == nil {
		p.tbl = render.NewTable("LIMIT", "KEY", "OVERRIDE", "BY", "COMMENT")
	} else {
		p.tbl.Next()
	}
	for _, o := range list {
		p.tbl.Row(render.Cell(o.Namespace+"/"+o.Limit), render.Cell(o.Key), OverrideText(o), render.OrNothing(o.Author), render.OrNothing(o.Comment))
	}
	return p.tbl.Write(p.w)
}

func (p *overridePrinter) jsonPage(list []*quoratev1.Override) error {
	var b bytes.Buffer
	for i, o := range list {
		switch {
		case i > 0 || p.pages > 1:
			b.WriteByte(',')
		default:
			b.WriteString(`{"overrides":[`)
		}
		b.Write(api.FormatJSON(o))
	}
	if len(list) == 0 && p.pages == 1 {
		b.WriteString(`{"overrides":[`)
	}
	_, err := p.w.Write(b.Bytes())
	return err
}

func (p *overridePrinter) yamlPage(list []*quoratev1.Override) error {
	out := make([]quota.Override, len(list))
	for i, o := range list {
		var err error
		if out[i], err = overrideOf(o); err != nil {
			return exit.With(exit.Fault, err)
		}
	}
	text := config.FormatOverrides(out)
	if p.pages > 1 {
		if len(list) == 0 {
			return nil
		}
		text = text[bytes.Index(text, []byte("overrides:\n"))+len("overrides:\n"):]
	}
	_, err := p.w.Write(text)
	return err
}

// end closes what was printed in pages.
func (p *overridePrinter) end(total int32) error {
	if p.output != "json" {
		return nil
	}
	_, err := fmt.Fprintf(p.w, "],\"total\":%d}\n", total)
	return err
}
