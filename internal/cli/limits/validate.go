package limits

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
)

// validation is the result for one file.
type validation struct {
	File     string        `json:"file"`
	Valid    bool          `json:"valid"`
	Limits   int           `json:"limits"`
	Faults   []faultJSON   `json:"faults"`
	Findings []findingJSON `json:"findings"`
	Server   *serverJSON   `json:"server,omitempty"`

	text string // all faults, with excerpts
}

type faultJSON struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path"`
	Message string `json:"message"`
}

type findingJSON struct {
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Limit  string `json:"limit"`
	Rule   string `json:"rule"`
	Text   string `json:"text"`
}

// serverJSON is the cluster's verdict on the file.
type serverJSON struct {
	Valid    bool     `json:"valid"`
	Faults   string   `json:"faults"`
	Findings []string `json:"findings"`
}

func newLimitsValidateCommand() *cobra.Command {
	var t remote.Targets
	var output render.Output
	var server, strict bool
	cmd := &cobra.Command{
		Use:     "validate FILE...",
		Aliases: []string{"check", "lint"},
		Short:   "Check limit files, and warn of probable mistakes",
		Long: `Check limit files ("-": standard input): every fault with its line and column,
and the linter's findings, about limits that are valid but probably not
intended. No cluster is needed; --server also asks a cluster, which may run
another version.

Exit code 0 means that all files are valid, 1 (only with --strict) that one has
findings, 2 that one is invalid.`,
		Example: `  quorate limits validate examples/limits.yaml
  quorate limits validate --strict limits.yaml
  quorate limits validate --server -o json limits.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var all []*validation
			for _, path := range args {
				v, err := validateFile(cmd, &t, path, server)
				if err != nil {
					return err
				}
				all = append(all, v)
			}
			err := output.Print(cmd, all, func(p *render.Page) {
				for _, v := range all {
					v.print(p)
				}
			})
			if err != nil {
				return err
			}
			return judge(all, strict)
		},
	}
	t.AddFlags(cmd)
	cmd.Flags().BoolVar(&server, "server", false, "ask the cluster as well")
	cmd.Flags().BoolVar(&strict, "strict", false, "findings end with exit code 1")
	output.AddFlags(cmd, "text", "json")
	return cmd
}

func validateFile(cmd *cobra.Command, t *remote.Targets, path string, server bool) (*validation, error) {
	data, err := ReadInput(path, cmd.InOrStdin(), apiproto.MaxLimitsFile)
	if err != nil {
		return nil, err
	}
	v := &validation{File: path, Valid: true, Faults: []faultJSON{}, Findings: []findingJSON{}}
	found, err := config.LintFile(path, data)
	if faults, ok := errors.AsType[*config.FileError](err); ok {
		v.Valid, v.text = false, err.Error()
		for _, f := range faults.Faults {
			v.Faults = append(v.Faults, faultJSON{f.Line, f.Column, f.Path, f.Message})
		}
	} else if err != nil {
		return nil, exit.Invalid(err)
	}
	for _, f := range found {
		v.Findings = append(v.Findings, findingJSON{f.Line, f.Column, f.Limit.String(), f.Rule, f.Text})
	}
	if limits, err := config.ParseLimits(path, data); err == nil {
		v.Limits = len(limits)
	}
	if server {
		res, err := callLimits(cmd.Context(), t, quoratev1.LimitServiceClient.ValidateLimits, &quoratev1.ValidateLimitsRequest{Yaml: string(data), Source: v.File})
		if err != nil {
			return v, err
		}
		v.Server = &serverJSON{res.Valid, res.Faults, append([]string{}, res.Findings...)}
	}
	return v, nil
}

func (v *validation) print(w io.Writer) {
	if !v.Valid {
		fmt.Fprintln(w, v.text)
	}
	for _, f := range v.Findings {
		fmt.Fprintf(w, "%s:%d:%d: warning: %s: %s (%s)\n", v.File, f.Line, f.Column, f.Limit, f.Text, f.Rule)
	}
	word := fmt.Sprintf("valid, %s, %s", phrase.Plural(v.Limits, "limit"), phrase.Plural(len(v.Findings), "finding"))
	if !v.Valid {
		word = "not valid, " + phrase.Plural(len(v.Faults), "fault")
	}
	fmt.Fprintf(w, "%s: %s\n", v.File, word)
	switch s := v.Server; {
	case s == nil:
	case !s.Valid && s.Faults == v.text:
		fmt.Fprintf(w, "%s: the cluster agrees\n", v.File)
	case !s.Valid:
		fmt.Fprintf(w, "%s: the cluster: not valid\n%s\n", v.File, strings.TrimRight(s.Faults, "\n"))
	default:
		fmt.Fprintf(w, "%s: the cluster: valid, %s\n", v.File, phrase.Plural(len(s.Findings), "finding"))
	}
}

// judge returns the error with the exit code.
func judge(all []*validation, strict bool) error {
	var bad []string
	found := 0
	for _, v := range all {
		if !v.Valid || v.Server != nil && !v.Server.Valid {
			bad = append(bad, v.File)
		}
		found += len(v.Findings)
	}
	switch {
	case len(bad) > 0:
		return exit.Invalid(fmt.Errorf("not valid: %s", strings.Join(bad, ", ")))
	case strict && found > 0:
		return exit.AnswerNo()
	}
	return nil
}
