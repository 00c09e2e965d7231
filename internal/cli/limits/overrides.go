package limits

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/cli/usage"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/quota"
)

// NewOverridesCommand returns "quorate overrides".
func NewOverridesCommand() *cobra.Command {
	return usage.Group("overrides", "Change limits for single keys",
		`Change limits for single keys at run time: a tenant that gets more until Friday,
an address that gets nothing. An override changes neither level nor debt, and
lasts until it expires or is deleted.`,
		newOverridesGetCommand(), newOverridesSetCommand(), newOverridesDeleteCommand(), newOverridesApplyCommand())
}

// callOverrides calls OverrideService.
func callOverrides[Request, Response any](ctx context.Context, t *remote.Targets, method remote.Method[quoratev1.OverrideServiceClient, Request, Response], req *Request) (*Response, error) {
	return remote.Invoke(ctx, t, quoratev1.NewOverrideServiceClient, method, req)
}

// overrideFlags holds the flags of "overrides set" as typed.
type overrideFlags struct {
	rate, scale, expires string
	burst                int64
	unlimited, ban       bool
	render.Change
}

func newOverridesSetCommand() *cobra.Command {
	var t remote.Targets
	var o overrideFlags
	var output render.Output
	cmd := &cobra.Command{
		Use:   "set NAMESPACE/LIMIT KEY",
		Short: "Set or replace the override of a key",
		Long: `Set or replace the override of a key. Give --unlimited, --ban, or some of
--rate, --burst and --scale. --scale multiplies all tiers of the limit: use it
for limits with several. For a window, --burst is the count. To override a limit
that a template makes, set NAMESPACE/@template, with the limit's name and a
slash before the key.`,
		Example: `  quorate overrides set api/per_tenant acme --scale 2x --expires 72h --comment "launch week"
  quorate overrides set api/per_tenant acme --rate 500/s --burst 1000 --expires 2027-01-31T18:00:00Z
  quorate overrides set web/per_client 203.0.113.7 --ban`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := ParseKey(args[0], args[1])
			if err != nil {
				return err
			}
			one, err := o.override(cmd, k)
			if err != nil {
				return err
			}
			if err := setOverrides(cmd.Context(), &t, []*quoratev1.Override{one}); err != nil {
				return err
			}
			return output.Printf(cmd, &quoratev1.SetOverridesResponse{Set: 1}, "%v %s: %s", k.LimitName, phrase.Show(k.Key), OverrideText(one))
		},
	}
	t.AddFlags(cmd)
	o.Change.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.rate, "rate", "", "refill instead of the limit's, such as 20/s")
	f.Int64Var(&o.burst, "burst", 0, "burst instead of the limit's; of a window, its count")
	f.StringVar(&o.scale, "scale", "", "multiply all tiers, such as 2x, 1.5x or 250%")
	f.BoolVar(&o.unlimited, "unlimited", false, "admit everything")
	f.BoolVar(&o.ban, "ban", false, "refuse everything")
	f.StringVar(&o.expires, "expires", "", "expiry: 72h, 7d or 2027-01-31T18:00:00Z (default: never)")
	output.AddFlags(cmd, "text", "json")
	return cmd
}

// override parses the flags with the reader of override files, so that both report the same mistake
// in the same words.
func (o *overrideFlags) override(cmd *cobra.Command, k quota.Key) (*quoratev1.Override, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "overrides:\n  - namespace: %q\n    limit: %q\n    key: %s\n", k.Namespace, k.LimitName.Limit, strconv.Quote(k.Key))
	add := func(name, value string) {
		if cmd.Flags().Changed(name) {
			fmt.Fprintf(&b, "    %s: %s\n", name, value)
		}
	}
	add("rate", strconv.Quote(o.rate))
	add("burst", strconv.FormatInt(o.burst, 10))
	add("scale", strconv.Quote(o.scale))
	add("unlimited", strconv.FormatBool(o.unlimited))
	add("ban", strconv.FormatBool(o.ban))
	add("expires", strconv.Quote(o.expires))
	add("comment", strconv.Quote(o.Comment))
	list, err := config.ParseOverrides("flags", []byte(b.String()), quota.Time(time.Now().UnixNano()))
	if faults, ok := errors.AsType[*config.FileError](err); ok {
		f := faults.Faults[0]
		field := f.Path[strings.LastIndex(f.Path, ".")+1:]
		if field == "overrides[0]" {
			return nil, exit.Usagef("nothing to set: give --unlimited, --ban, or some of --rate, --burst and --scale")
		}
		if cmd.Flags().Lookup(field) != nil {
			return nil, exit.Usagef("--%s: %s", field, f.Message)
		}
		return nil, exit.Usagef("%s: %s", field, f.Message)
	}
	if err != nil || len(list) != 1 {
		return nil, exit.Usagef("the override cannot be read: %w", err)
	}
	return overrideProto(&list[0], o.Who()), nil
}

func overrideProto(o *quota.Override, author string) *quoratev1.Override {
	out := &quoratev1.Override{
		Namespace: o.Key.Namespace, Limit: o.Key.LimitName.Limit, Key: o.Key.Key,
		Scale: float64(o.Scale) / quota.Million, Comment: o.Comment, Author: author,
	}
	if o.Class != quota.Counted {
		out.Class = quoratev1.Class(o.Class + 1)
	}
	if o.Rate.Per > 0 {
		out.Rate = o.Rate.String()
	}
	if o.Burst >= 0 {
		out.Burst = &o.Burst
	}
	if o.Expires > 0 {
		out.Expires = timestamppb.New(time.Unix(0, int64(o.Expires)))
	}
	return out
}

// overrideOf converts an override from a node.
func overrideOf(p *quoratev1.Override) (quota.Override, error) {
	o := quota.Override{
		Key:   quota.Key{LimitName: quota.LimitName{Namespace: p.Namespace, Limit: p.Limit}, Key: p.Key},
		Burst: -1, Scale: int64(math.Round(p.Scale * quota.Million)), Comment: p.Comment, By: p.Author,
	}
	if p.Class > 0 {
		o.Class = quota.Class(p.Class - 1)
	}
	if p.Burst != nil {
		o.Burst = *p.Burst
	}
	if p.Expires != nil {
		o.Expires = quota.Time(p.Expires.AsTime().UnixNano())
	}
	var err error
	if p.Rate != "" {
		o.Rate, err = quota.ParseRate(p.Rate)
	}
	return o, err
}

func setOverrides(ctx context.Context, t *remote.Targets, list []*quoratev1.Override) error {
	_, err := callOverrides(ctx, t, quoratev1.OverrideServiceClient.SetOverrides, &quoratev1.SetOverridesRequest{Overrides: list})
	if err == nil {
		return nil
	}
	// Name the key instead of its index in the call.
	var i int
	if _, scan := fmt.Sscanf(err.Error(), "overrides[%d]", &i); scan == nil && i >= 0 && i < len(list) {
		o := list[i]
		_, rest, _ := strings.Cut(err.Error(), "]")
		return exit.Errorf(exit.CodeOf(err), "override of %s/%s for %s: %s", o.Namespace, o.Limit, phrase.Show(o.Key), strings.TrimLeft(rest, ".: "))
	}
	return err
}

func newOverridesDeleteCommand() *cobra.Command {
	var t remote.Targets
	var output render.Output
	cmd := &cobra.Command{
		Use:   "delete NAMESPACE/LIMIT KEY...",
		Short: "Delete overrides: the limit applies again",
		Long: `Delete the overrides of keys: the limit applies to them again. Exit code 5 means
that one of the keys had no override; the others are deleted.`,
		Example: `  quorate overrides delete api/per_tenant acme
  quorate overrides delete web/per_client 203.0.113.7 203.0.113.8`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			keys := args[1:]
			if len(keys) > apiproto.MaxList {
				return exit.Usagef("%d keys: at most %d in one call", len(keys), apiproto.MaxList)
			}
			req := &quoratev1.DeleteOverridesRequest{}
			for _, key := range keys {
				k, err := ParseKey(args[0], key)
				if err != nil {
					return err
				}
				req.Keys = append(req.Keys, &quoratev1.KeyRef{Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key})
			}
			res, err := callOverrides(cmd.Context(), &t, quoratev1.OverrideServiceClient.DeleteOverrides, req)
			if err != nil {
				return err
			}
			if err := output.Printf(cmd, res, "%s deleted", phrase.Plural(int(res.Deleted), "override")); err != nil {
				return err
			}
			if none := len(keys) - int(res.Deleted); none > 0 {
				return exit.NotFoundf("%s: %d of %s had no override", args[0], none, phrase.Plural(len(keys), "key"))
			}
			return nil
		},
	}
	t.AddFlags(cmd)
	output.AddFlags(cmd, "text", "json")
	return cmd
}
