package planner

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/history"
	planning "github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/quota"
)

// ofAccounts reports whether a name is the name of accounts with a policy.
func ofAccounts(name quota.LimitName) bool { return name.Namespace == quota.AccountNamespace }

// lookedAtConfigs bounds the newest configs that are searched for a policy.
const lookedAtConfigs = 16

// accountRule returns what one account may take by a policy, as a limit. It uses the newest loaded version.
// It returns nil if no policy of that name that refills is loaded.
func (s *Planner) accountRule(name quota.LimitName) *quota.Limit {
	parts := strings.Split(name.Limit, "~")
	if len(parts) != 5 {
		return nil
	}
	ctx := context.Background() // loaded policies are on this node
	configs, err := s.node.ListPolicies(ctx, parts[0], parts[1], "", apiproto.MaxList)
	if err != nil {
		return nil
	}
	slices.SortFunc(configs, func(a, b account.Config) int { return cmp.Compare(b.At, a.At) })
	for i := range configs[:min(len(configs), lookedAtConfigs)] {
		c, err := s.node.Policies(ctx, configs[i].ID)
		if err != nil || c == nil {
			continue
		}
		if p, ok := c.Policies[account.PolicyKey{Namespace: parts[2], Name: parts[3], Resource: parts[4]}]; ok {
			return accountLimit(name, &p)
		}
	}
	return nil
}

// accountLimit converts a policy to a limit: a window that begins at midnight UTC if each refill fills the
// account up, otherwise a bucket. It ignores the offset of the refill.
func accountLimit(name quota.LimitName, p *account.Policy) *quota.Limit {
	r := p.Refill
	if r.Units <= 0 || r.Interval == 0 || p.Limit <= 0 {
		return nil
	}
	l := &quota.Limit{LimitName: name}
	t := quota.Tier{Kind: quota.FixedWindow, Rate: quota.Rate{Tokens: p.Limit, Per: time.Duration(r.Interval) * time.Second}, Burst: p.Limit}
	if r.Units < p.Limit {
		t.Kind, t.Rate.Tokens = quota.TokenBucket, r.Units
	}
	l.SetFirst(t)
	return l
}

// accountHeadroom computes how full accounts with a policy were. The demand of each account is not recorded.
// If the demand of all together was less than what one may take, no account was fuller than that. If
// anything was refused, at least one account was used up.
func accountHeadroom(out *quoratev1.LimitHeadroom, l *quota.Limit, u *history.UsedLimit) {
	if l == nil {
		out.Statement = "no loaded policy of this name that refills by time; " + refusedText(out)
		return
	}
	out.Rule, out.Refill = apiproto.Limit(l), refill(l)
	together := inTokens(u.Attempted) / capacity(l, u.Seconds)
	text := fmt.Sprintf("the demand of all accounts was %.0f%% of the limit of one", 100*together)
	if together <= 1 {
		out.Saturation = together
		text += ", so no account had more on average"
	}
	if u.Refused() > 0 {
		out.Saturation = 1
		text += "; at least one was used up"
	} else {
		text += "; none was used up"
	}
	out.ManyKeys, out.Headroom = together > 1, 1-out.Saturation
	out.Statement = text + "; the demand of each account is not recorded; " + refusedText(out)
}

// capacity returns what one key or account may take in a time range: the refill, or in a short time range the
// burst. Of several tiers it returns the least.
func capacity(l *quota.Limit, seconds int) float64 {
	least := math.Inf(1)
	for _, t := range l.Tiers() {
		least = min(least, passes(&t, seconds))
	}
	return least
}

// passes returns what one tier admits in a time range.
func passes(t *quota.Tier, seconds int) float64 {
	return max(float64(t.Burst), float64(t.Rate.Tokens)/max(t.Rate.Per.Seconds(), 1e-9)*float64(seconds))
}

// alike returns the least number of accounts with equal demand for which the rule would have refused no more
// than was really refused; 0 without a rule.
func (d *demand) alike(now *quota.Limit) int64 {
	if now == nil {
		return 0
	}
	total := totalOf(d.answer.Points)
	t := now.First()
	few, enough := int64(0), total.Attempted.Tokens()/t.Burst+1 // this many accounts need no refill
	for enough-few > 1 {
		n := few + (enough-few)/2
		if o := d.replayOne([]quota.Tier{times(t, n)}); o.RefusedAtMost > total.Refused() {
			few = n
		} else {
			enough = n
		}
	}
	return enough
}

// times returns what n accounts may take together.
func times(t quota.Tier, n int64) quota.Tier {
	t.Rate.Tokens, t.Burst = t.Rate.Tokens*n, t.Burst*n
	return t
}

// replayAccounts returns what tiers would have done with the demand of accounts: at most what they would do
// with the demand of one account, and likely what they would do with d.accounts of equal demand.
func (d *demand) replayAccounts(tiers []quota.Tier) planning.Outcome {
	out := d.replayOne(tiers)
	all := make([]quota.Tier, len(tiers))
	for i := range tiers {
		all[i] = times(tiers[i], d.accounts)
	}
	likely := d.replayOne(all).RefusedAtMost
	out.RefusedAtLeast, out.RefusedIfEven, out.Likely, out.Estimate = 0, likely, likely, true
	return out
}
