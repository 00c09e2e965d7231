package checks

import (
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/limits"
	"github.com/quorate/quorate/internal/cli/render"
)

// NewReserveCommand returns "quorate reserve".
func NewReserveCommand() *cobra.Command {
	var c caller
	cmd := &cobra.Command{
		Use:   "reserve NAMESPACE/LIMIT KEY",
		Short: "Reserve tokens, to be settled",
		Long: `Reserve tokens until "quorate settle" reports how many were used. If a
reservation is not settled in time, its tokens are returned. The first line of
the output is the handle.

Exit code 0 means reserved, 1 refused.`,
		Example: `  quorate reserve api/per_tenant acme --cost 50 --ttl 1m
  quorate reserve api/per_tenant acme --cost 50 -o json | jq -r .handle`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			check, err := c.check(cmd, args)
			if err != nil {
				return err
			}
			req := &quoratev1.ReserveRequest{Checks: []*quoratev1.AllowRequest{check}}
			if req.Ttl, err = c.lifetime(); err != nil {
				return err
			}
			res, err := callQuota(cmd.Context(), &c.Targets, quoratev1.QuotaServiceClient.Reserve, req)
			if err != nil {
				return err
			}
			return c.print(cmd, res, res.Allowed, handleText(res.Handle, res.ExpiresIn, first(res.Results)))
		},
	}
	c.AddFlags(cmd)
	c.costFlag(cmd)
	c.ttlFlag(cmd)
	c.output.AddFlags(cmd, "text", "json")
	return cmd
}

func first(results []*quoratev1.AllowResponse) *quoratev1.AllowResponse {
	if len(results) == 0 {
		return nil
	}
	return results[0]
}

func handleText(handle string, expires *durationpb.Duration, r *quoratev1.AllowResponse) string {
	text := answerText(r)
	if handle != "" {
		text = fmt.Sprintf("%s\n%s  expires in %s", handle, text, render.Pause(expires))
	}
	return text
}

// NewSettleCommand returns "quorate settle".
func NewSettleCommand() *cobra.Command {
	var c caller
	var used int64
	cmd := &cobra.Command{
		Use:   "settle HANDLE",
		Short: "Settle a reservation with the tokens used",
		Long: `Settle a reservation: unused tokens are returned, and use beyond the reservation
is booked as debt. Exit code 5 means that the reservation is unknown: already
settled, expired, or never made.`,
		Example: `  quorate settle "$HANDLE"
  quorate settle "$HANDLE" --used 12`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &quoratev1.SettleRequest{Handle: args[0]}
			if cmd.Flags().Changed("used") {
				if used < 0 {
					return exit.Usagef("--used %d: must be 0 or more", used)
				}
				req.Used = &used
			}
			res, err := callQuota(cmd.Context(), &c.Targets, quoratev1.QuotaServiceClient.Settle, req)
			if err != nil {
				return err
			}
			return c.output.Printf(cmd, res, "settled")
		},
	}
	c.AddFlags(cmd)
	cmd.Flags().Int64Var(&used, "used", 0, "how many tokens were used (default: all that were reserved)")
	c.output.AddFlags(cmd, "text", "json")
	return cmd
}

// NewAcquireCommand returns "quorate acquire".
func NewAcquireCommand() *cobra.Command {
	var c caller
	var count int64
	cmd := &cobra.Command{
		Use:   "acquire NAMESPACE/LIMIT KEY",
		Short: "Acquire places under a concurrency limit",
		Long: `Acquire places under a concurrency limit, until "quorate release" returns them
or their lease ends. The first line of the output is the handle.

Exit code 0 means acquired, 1 refused.`,
		Example: `  quorate acquire jobs/running nightly --ttl 10m
  quorate acquire jobs/running nightly --count 2 -o json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := limits.ParseKey(args[0], args[1])
			if err != nil {
				return err
			}
			if count < 1 {
				return exit.Usagef("--count %d: must be 1 or more", count)
			}
			req := &quoratev1.AcquireRequest{Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key, Count: &count}
			if req.Ttl, err = c.lifetime(); err != nil {
				return err
			}
			res, err := callQuota(cmd.Context(), &c.Targets, quoratev1.QuotaServiceClient.Acquire, req)
			if err != nil {
				return err
			}
			return c.print(cmd, res, res.Allowed, handleText(res.Handle, res.ExpiresIn, res.Result))
		},
	}
	c.AddFlags(cmd)
	cmd.Flags().Int64Var(&count, "count", 1, "how many places, 1 or more")
	c.ttlFlag(cmd)
	c.output.AddFlags(cmd, "text", "json")
	return cmd
}

// NewReleaseCommand returns "quorate release".
func NewReleaseCommand() *cobra.Command {
	var c caller
	cmd := &cobra.Command{
		Use:   "release HANDLE",
		Short: "Release acquired places",
		Long: `Release the places that "quorate acquire" acquired. Exit code 5 means that they
are unknown: already released, expired, or never acquired.`,
		Example: `  quorate release "$HANDLE"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			res, err := callQuota(cmd.Context(), &c.Targets, quoratev1.QuotaServiceClient.Release, &quoratev1.ReleaseRequest{Handle: args[0]})
			if err != nil {
				return err
			}
			return c.output.Printf(cmd, res, "released")
		},
	}
	c.AddFlags(cmd)
	c.output.AddFlags(cmd, "text", "json")
	return cmd
}
