package checks

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/limits"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
)

// caller holds the flags of commands that make one call of QuotaService.
type caller struct {
	remote.Targets
	output  render.Output
	cost    int64
	maxWait time.Duration
	ttl     time.Duration
	peek    bool
}

// callQuota calls QuotaService.
func callQuota[Request, Response any](ctx context.Context, t *remote.Targets, method remote.Method[quoratev1.QuotaServiceClient, Request, Response], req *Request) (*Response, error) {
	return remote.Invoke(ctx, t, quoratev1.NewQuotaServiceClient, method, req)
}

func (c *caller) costFlag(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&c.cost, "cost", 1, "how many tokens, 1 or more")
	cmd.Flags().DurationVar(&c.maxWait, "max-wait", 0, "longest wait to accept; it can only shorten the limit's (default: the limit's)")
}

func (c *caller) ttlFlag(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&c.ttl, "ttl", 0, "lease, 1ms to 24h (default: the limit's lease)")
}

// check makes a check from arguments and flags.
func (c *caller) check(cmd *cobra.Command, args []string) (*quoratev1.AllowRequest, error) {
	k, err := limits.ParseKey(args[0], args[1])
	if err != nil {
		return nil, err
	}
	if c.peek && cmd.Flags().Changed("cost") {
		return nil, exit.Usagef("--peek and --cost: give one; peek asks about one token and charges none")
	}
	if c.cost < 1 {
		return nil, exit.Usagef("--cost %d: must be 1 or more", c.cost)
	}
	if c.maxWait < 0 {
		return nil, exit.Usagef("--max-wait %v: must be 0 or more", c.maxWait)
	}
	req := &quoratev1.AllowRequest{Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key, Cost: &c.cost}
	if c.peek {
		req.Cost = new(int64)
	}
	if cmd.Flags().Changed("max-wait") {
		req.MaxWait = durationpb.New(c.maxWait)
	}
	return req, nil
}

func (c *caller) lifetime() (*durationpb.Duration, error) {
	if c.ttl == 0 {
		return nil, nil //nolint:nilnil // absent in the request
	}
	if c.ttl < time.Millisecond || c.ttl > 24*time.Hour {
		return nil, exit.Usagef("--ttl %v: must be 1ms to 24h", c.ttl)
	}
	return durationpb.New(c.ttl), nil
}

// print prints the answer. A refusal gives exit code 1.
func (c *caller) print(cmd *cobra.Command, res proto.Message, allowed bool, text string) error {
	err := c.output.Printf(cmd, res, "%s", text)
	if err == nil && !allowed {
		return exit.AnswerNo()
	}
	return err
}

// answerText formats a decision on one line.
func answerText(r *quoratev1.AllowResponse) string {
	l := r.GetLimit()
	parts := []string{"allowed"}
	if !r.GetAllowed() {
		parts[0] = "refused"
	}
	if r.GetShadow() {
		parts[0] += " (shadow)"
	}
	if r.GetWait().AsDuration() > 0 {
		parts = append(parts, "wait "+render.Pause(r.Wait))
	}
	parts = append(parts, "why "+render.Word(r.GetWhy()))
	if l != nil && (l.Class == quoratev1.Class_CLASS_COUNTED || l.Class == 0) {
		parts = append(parts, fmt.Sprintf("remaining %d of %d", r.Remaining, max(l.Burst, l.InFlight)))
	}
	if l != nil {
		parts = append(parts, fmt.Sprintf("limit %s/%s %s", l.Namespace, l.Name, limits.RuleText(l)))
	}
	if r.GetRetryAfter() != nil {
		parts = append(parts, "retry after "+render.Pause(r.RetryAfter))
	} else if !r.GetAllowed() {
		parts = append(parts, "never passes")
	}
	if r.GetNear() {
		parts = append(parts, "nearly used up")
	}
	return strings.Join(parts, "  ")
}

// NewAllowCommand returns "quorate allow".
func NewAllowCommand() *cobra.Command {
	var c caller
	cmd := &cobra.Command{
		Use:   "allow NAMESPACE/LIMIT KEY",
		Short: "Check a request against a limit, and charge it",
		Long: `Ask the first node that answers whether a request may pass, and charge it if so.
"*" is the key of limits with one bucket for all callers.

Exit code 0 means allowed, 1 refused, 2 or more no answer. If the answer says
"wait", the tokens are reserved and the caller has to wait that long.`,
		Example: `  quorate allow web/per_client 203.0.113.7
  quorate allow api/per_tenant acme --cost 50 --max-wait 2s
  quorate allow web/login alice --peek -o json
  if quorate allow mail/per_sender alice; then echo send it; fi`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := c.check(cmd, args)
			if err != nil {
				return err
			}
			res, err := callQuota(cmd.Context(), &c.Targets, quoratev1.QuotaServiceClient.Allow, req)
			if err != nil {
				return err
			}
			return c.print(cmd, res, res.Allowed, answerText(res))
		},
	}
	c.AddFlags(cmd)
	c.costFlag(cmd)
	cmd.Flags().BoolVar(&c.peek, "peek", false, "ask about one token and charge none")
	c.output.AddFlags(cmd, "text", "json")
	return cmd
}
