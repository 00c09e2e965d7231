package limits

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/quota"
)

func newLimitsDiffCommand() *cobra.Command {
	var t remote.Targets
	var output render.Output
	var against uint64
	cmd := &cobra.Command{
		Use:   "diff FILE | N [M]",
		Short: "Compare limits: a file with a version, or two versions",
		Long: `Compare a limit file ("-": standard input) with the active limits, or with the
version that --against names: what applying the file would change. Or compare
version N with version M, or with the active one. (A file whose name is a number
is written ./3.)

+ is new, - is gone, ~ has changed. Exit code 0 means no difference, 1 a
difference, 2 or more that they could not be compared.`,
		Example: `  quorate limits diff limits.yaml
  quorate limits diff limits.yaml --against 3
  quorate limits diff 3 4
  quorate limits diff 3 -o json`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var number *uint64
			if cmd.Flags().Changed("against") {
				number = &against
			}
			from, to, err := sides(args, number, cmd.InOrStdin())
			if err != nil {
				return err
			}
			res, err := diffLimits(cmd.Context(), &t, from, to)
			if err != nil {
				return err
			}
			err = output.Print(cmd, res, func(p *render.Page) {
				printChanges(p, render.Colours(cmd), res.Changes)
				if len(res.Changes) > 0 {
					fmt.Fprintln(p, countChanges(res.Changes))
				} else {
					fmt.Fprintln(cmd.ErrOrStderr(), "quorate: no difference")
				}
			})
			if err == nil && len(res.Changes) > 0 {
				return exit.AnswerNo()
			}
			return err
		},
	}
	t.AddFlags(cmd)
	cmd.Flags().Uint64Var(&against, "against", 0, "compare the file with this version (default: the active one)")
	output.AddFlags(cmd, "text", "json")
	return cmd
}

// sides parses what to compare; nil means the current limits.
func sides(args []string, against *uint64, stdin io.Reader) (from, to *quoratev1.LimitSet, err error) {
	var numbers []*quoratev1.LimitSet
	for _, a := range args {
		if n, err := strconv.ParseUint(a, 10, 64); err == nil {
			numbers = append(numbers, &quoratev1.LimitSet{Version: &n})
		}
	}
	switch {
	case len(numbers) == len(args) && against != nil:
		return nil, nil, exit.Usagef("--against: is for files; compare versions with \"quorate limits diff %d %s\"", *against, args[0])
	case len(args) == 2 && len(numbers) < 2:
		return nil, nil, exit.Usagef("diff %s %s: write one file, or the numbers of two versions", args[0], args[1])
	case len(numbers) == 2:
		return numbers[0], numbers[1], nil
	case len(numbers) == 1:
		return numbers[0], nil, nil
	}
	data, err := ReadInput(args[0], stdin, apiproto.MaxLimitsFile)
	if against != nil {
		from = &quoratev1.LimitSet{Version: against}
	}
	return from, &quoratev1.LimitSet{Yaml: string(data), Source: args[0]}, err
}

func diffLimits(ctx context.Context, t *remote.Targets, from, to *quoratev1.LimitSet) (*quoratev1.DiffLimitsResponse, error) {
	res, err := callLimits(ctx, t, quoratev1.LimitServiceClient.DiffLimits, &quoratev1.DiffLimitsRequest{From: from, To: to})
	return res, err
}

// signs holds the output of each kind of change.
var signs = map[quoratev1.ChangeKind]struct{ sign, colour, word string }{
	quoratev1.ChangeKind_CHANGE_KIND_ADDED:   {"+", render.Green, "added"},
	quoratev1.ChangeKind_CHANGE_KIND_CHANGED: {"~", render.Yellow, "changed"},
	quoratev1.ChangeKind_CHANGE_KIND_REMOVED: {"-", render.Red, "removed"},
}

// printChanges writes a paragraph per limit.
func printChanges(w io.Writer, p render.Palette, changes []*quoratev1.LimitChange) {
	for _, c := range changes {
		s := signs[c.Kind]
		fmt.Fprintln(w, p.Paint(s.colour, s.sign+" "+phrase.Show(c.Namespace+"/"+c.Limit)))
		width := 0
		for _, f := range c.Fields {
			width = max(width, utf8.RuneCountInString(f.Field))
		}
		for _, f := range c.Fields {
			if value := changeText(p, c.Kind, f); value != "" {
				fmt.Fprintf(w, "    %-*s  %s\n", width, f.Field, value)
			}
		}
	}
}

// printBriefly writes a line per limit: the changes in it, or only that it was added or removed.
func printBriefly(w io.Writer, p render.Palette, changes []*quoratev1.LimitChange) {
	for _, c := range changes {
		s := signs[c.Kind]
		fmt.Fprint(w, p.Paint(s.colour, s.sign+" "+phrase.Show(c.Namespace+"/"+c.Limit)))
		if c.Kind == quoratev1.ChangeKind_CHANGE_KIND_CHANGED {
			for i, f := range c.Fields {
				sep := ", "
				if i == 0 {
					sep = "  "
				}
				fmt.Fprint(w, sep, f.Field, " ", changeText(p, c.Kind, f))
			}
		}
		fmt.Fprintln(w)
	}
}

// changeText formats the change of a field. It is empty if the field was never set.
func changeText(p render.Palette, kind quoratev1.ChangeKind, f *quoratev1.FieldChange) string {
	before, after := fieldText(f.Field, f.Before), fieldText(f.Field, f.After)
	if kind != quoratev1.ChangeKind_CHANGE_KIND_CHANGED {
		return p.Paint(signs[kind].colour, before+after)
	}
	for _, s := range []*string{&before, &after} {
		if *s == "" {
			*s = "not set"
		}
	}
	text := p.Paint(render.Red, before) + " -> " + p.Paint(render.Green, after)
	if f.Field == "rate" {
		a, errA := quota.ParseRate(f.Before)
		b, errB := quota.ParseRate(f.After)
		if errA == nil && errB == nil && a.Same(b) {
			text += ", which is the same rate"
		}
	}
	return text
}

// fieldText formats a field's JSON value for people.
func fieldText(field, value string) string {
	if fd := (&quoratev1.Limit{}).ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(field)); fd != nil && fd.Message() != nil &&
		fd.Message().FullName() == (&durationpb.Duration{}).ProtoReflect().Descriptor().FullName() {
		if s, err := strconv.ParseFloat(value, 64); err == nil {
			return render.Pause(durationpb.New(time.Duration(s * float64(time.Second))))
		}
	}
	if strings.HasPrefix(value, "{") || strings.HasPrefix(value, "[") {
		if s, err := tidy(json.NewDecoder(strings.NewReader(value))); err == nil {
			value = s
		}
	}
	return phrase.Printable(value)
}

// tidy formats a JSON value, leaving out quotes and empty values.
func tidy(d *json.Decoder) (string, error) {
	t, err := d.Token()
	if err != nil {
		return "", err
	}
	open, nested := t.(json.Delim)
	if !nested {
		if t == nil || t == 0.0 {
			t = ""
		}
		return fmt.Sprint(t), nil
	}
	var parts []string
	for d.More() {
		name := ""
		if open == '{' {
			t, err := d.Token()
			if err != nil {
				return "", err
			}
			name = fmt.Sprint(t) + ": "
		}
		value, err := tidy(d)
		if err != nil {
			return "", err
		}
		if value != "" {
			parts = append(parts, name+value)
		}
	}
	end, err := d.Token()
	return fmt.Sprintf("%v%s%v", open, strings.Join(parts, ", "), end), err
}

func countChanges(changes []*quoratev1.LimitChange) string {
	n := map[quoratev1.ChangeKind]int{}
	for _, c := range changes {
		n[c.Kind]++
	}
	var out []string
	for _, k := range []quoratev1.ChangeKind{1, 2, 3} {
		if n[k] > 0 {
			out = append(out, fmt.Sprintf("%d %s", n[k], signs[k].word))
		}
	}
	if len(out) == 0 {
		return "no difference"
	}
	return strings.Join(out, ", ")
}
