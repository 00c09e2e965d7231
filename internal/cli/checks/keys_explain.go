package checks

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/api/apijson"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/limits"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
)

// whyText explains each why code in words. docs/reference/glossary.md has the same table, and a test
// compares the two.
var whyText = map[string]string{
	"unknown":           `a reason of a newer version, unknown to this one; no node of this version reports it`,
	"held":              `admitted, out of tokens that the node held`,
	"estimate":          `admitted under soft beyond what the node held, because by its estimate the global level covers the cost`,
	"local":             `the node is cut off from the range's leader and counts the whole limit alone`,
	"over_limit":        `refused: the global limit is used up for now, or, where the leader decides because tokens are few, the rest is kept for nodes that had less than their share`,
	"over_burst":        `always refused: the cost is larger than the limit can ever hold`,
	"not_held":          `refused, under hard, and under soft in client processes: too few tokens are held here, although the cluster may have more`,
	"failover":          `refused: the key's range is changing leaders; none answers, or the new one has set aside tokens of nodes that have not reported yet`,
	"cut_off":           `refused under hard: the node is cut off from the leader and has spent its tokens`,
	"too_many_keys":     `not decided: the limit has max_keys keys and is hard, or the node has no room for another key of a concurrency limit; refused under hard, allowed under soft`,
	"no_limit":          `unknown limit`,
	"reserved":          `admitted from future tokens: the caller waits as long as the answer says`,
	"wait_too_long":     `refused: the wait would be longer than allowed`,
	"over_max_cost":     `always refused: the cost is larger than the limit's max_cost`,
	"unlimited":         `the limit, or an override of it, admits everything`,
	"banned":            `the limit, or an override of it, refuses everything`,
	"leader":            `decided by the leader of the key's range: decide: leader, or auto where memory does not settle it`,
	"share":             `cut off from the leader (when_cut_off: share): this node's last share of the rate`,
	"open":              `cut off from the leader (when_cut_off: open): everything passes`,
	"fixed_rate":        `cut off from the leader (when_cut_off: {rate: ...}): each node has a separate rate`,
	"not_enforced":      `enforcement is off`,
	"floor":             `admitted from the floor, although a parent is used up`,
	"parent_over_limit": `refused: a parent is used up`,
	"use_acquire":       `always refused: this is a concurrency limit; use acquire and release`,
}

func newKeysExplainCommand() *cobra.Command {
	var t remote.Targets
	var output render.Output
	cmd := &cobra.Command{
		Use:     "explain NAMESPACE/LIMIT KEY",
		Aliases: []string{"describe"},
		Short:   "Explain why a key is refused or allowed, and until when",
		Long: `Explain the state of a key: its rule and override, its tokens or debt, the nodes
that report it, and its refusals; then how a node would decide one token now,
without charging it, why, and when the next token is available.

Single refusals are not stored: "quorate events -f NAMESPACE/LIMIT --key KEY"
prints new ones, each with its reason. "describe" is the same command.`,
		Example: `  quorate keys explain web/per_client 203.0.113.7
  quorate keys explain api/per_tenant acme -o json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := limits.ParseCounter(args[0], args[1])
			if err != nil {
				return err
			}
			e := keyStanding{}
			err = t.Call(cmd.Context(), func(ctx context.Context, conn *grpc.ClientConn) (err error) {
				e.key, err = quoratev1.NewKeyServiceClient(conn).GetKey(ctx, &quoratev1.GetKeyRequest{Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key})
				if err != nil || k.LimitName.IsInline() { // only the protocol that defined it can check it
					return err
				}
				e.now, err = quoratev1.NewQuotaServiceClient(conn).Allow(ctx, &quoratev1.AllowRequest{Namespace: k.Namespace, Limit: k.LimitName.Limit, Key: k.Key, Cost: new(int64)})
				if exit.CodeOf(remote.Refusal(err)) == exit.Denied { // permission to read a key does not imply permission to check it
					err = nil
				}
				return err
			})
			if err != nil {
				return err
			}
			data, err := e.json()
			if err != nil {
				return err
			}
			return output.Print(cmd, data, func(p *render.Page) { e.print(p, phrase.Show(k.LimitName.String()), phrase.Show(k.Key)) })
		},
	}
	t.AddFlags(cmd)
	output.AddFlags(cmd, "text", "json")
	return cmd
}

// keyStanding holds what the leaders know about a key, and what a node would answer now; now is nil
// if the caller may not check.
type keyStanding struct {
	key *quoratev1.GetKeyResponse
	now *quoratev1.AllowResponse
}

func (e *keyStanding) json() (json.RawMessage, error) {
	out := map[string]json.RawMessage{"key": json.RawMessage(apijson.Format(e.key))}
	if e.now != nil {
		why, err := json.Marshal(whyText[render.Word(e.now.Why)])
		if err != nil {
			return nil, err
		}
		out["now"], out["why"] = json.RawMessage(apijson.Format(e.now)), why
	}
	return json.Marshal(out)
}

func (e *keyStanding) print(p *render.Page, limit, key string) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(p, "  %-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(p, "%s  key %s\n", limit, key)
	for _, k := range e.key.Counters {
		line("rule", "%s", k.Namespace+"/"+k.Limit+" for "+phrase.Show(k.Key)+": "+limits.RuleText(k.Rule)+ceilingText(k.Rule)+unenforced(k.Rule))
		line("level", "%s", levelText(k))
		line("counted", "%d admitted, %d refused since leader %s first saw it; %.1f/s requested now", k.Admitted, k.Refused, render.OrDash(k.Leader), k.Demand)
	}
	if o := e.key.Override; o != nil {
		line("override", "%s", limits.OverrideText(o))
	}
	if e.now != nil {
		e.printNow(line)
	}
}

// printNow prints what one node would answer.
func (e *keyStanding) printNow(line func(name, format string, args ...any)) {
	answer := "allowed"
	switch {
	case !e.now.Allowed:
		answer = "refused"
	case e.now.Shadow:
		answer = "allowed, because the limit is not enforced"
	}
	line("now", "one token would be %s: %s", answer, render.Word(e.now.Why))
	line("why", "%s", whyText[render.Word(e.now.Why)])
	switch r := e.now.RetryAfter; {
	case r != nil:
		line("next", "a token in %s", render.Pause(r))
	case !e.now.Allowed:
		line("next", "never, however long the caller waits")
	case e.now.Wait.AsDuration() > 0:
		line("next", "a token, after a wait of %s", render.Pause(e.now.Wait))
	default:
		line("next", "a token now")
	}
	if r := e.now.ResetAfter; r != nil {
		line("full", "in %s, without further requests", render.Pause(r))
	}
}

// levelText returns the remaining tokens of a counter in the whole cluster.
func levelText(k *quoratev1.KeyRate) string {
	by := ", reported by " + phrase.Plural(int(k.Members), "node")
	if k.Remaining < 0 {
		return fmt.Sprintf("%d owed%s", -k.Remaining, by)
	}
	return fmt.Sprintf("%d of %d left%s", k.Remaining, max(k.Rule.GetBurst(), k.Rule.GetInFlight()), by)
}

// shadowMark marks a rule in tables that counts refusals without refusing, for all keys or for
// some.
func shadowMark(l *quoratev1.Limit) string {
	switch f := l.GetFraction(); {
	case l.GetEnforcement() == quoratev1.Enforcement_ENFORCEMENT_SHADOW:
		return " shadow"
	case l.GetEnforcement() == quoratev1.Enforcement_ENFORCEMENT_OFF:
		return " off"
	case f > 0 && f < 1:
		return fmt.Sprintf(" enforced for %.4g%%", 100*f)
	}
	return ""
}

// ceilingText formats the rule's ceiling. It is empty for rules that do not count.
func ceilingText(l *quoratev1.Limit) string {
	if l.GetClass() == quoratev1.Class_CLASS_UNLIMITED || l.GetClass() == quoratev1.Class_CLASS_BANNED || l.GetCeiling() == quoratev1.Ceiling_CEILING_UNSPECIFIED {
		return ""
	}
	return ", ceiling: " + render.Word(l.GetCeiling())
}

// unenforced marks a rule that refuses nothing.
func unenforced(l *quoratev1.Limit) string {
	switch l.GetEnforcement() {
	case quoratev1.Enforcement_ENFORCEMENT_SHADOW:
		return ", shadow: refuses nothing"
	case quoratev1.Enforcement_ENFORCEMENT_OFF:
		return ", off: refuses nothing"
	}
	return ""
}
