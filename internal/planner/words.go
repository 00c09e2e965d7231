package planner

import (
	"fmt"
	"strings"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// statements returns what an answer rests on, in words.
func (d *demand) statements(now, next *quota.Limit, o *quoratev1.WhatIfOutcome, c *quoratev1.Coverage) []string {
	out := []string{d.sure(o), d.source()}
	if d.many {
		out = append(out, d.likeness())
	}
	switch {
	case d.accounts > 0 && o.Attempted > 0:
		out = append(out, "what each account was asked for is not recorded, so all of this is an estimate; accounts are taken to be full at the beginning, so ask for whole days")
	case d.unknown && o.Attempted > 0:
		out = append(out, "which keys it was counted for is not recorded: all demand was taken to be of one key, so a limit with many keys refuses less than this")
	}
	if s := incomplete(c); s != "" {
		out = append(out, s)
	}
	if now.Enforcement == quota.Shadow {
		out = append(out, "the limit is in shadow: nothing was refused; refused_then is what it would have refused")
	}
	if next.Parent != "" {
		out = append(out, "its parent "+next.Parent+" is not replayed: what that refuses comes on top")
	}
	return append(out, "assumes one token for each request; with larger requests, up to one more is refused in each second with refusals")
}

// sure states how certain an outcome is.
func (d *demand) sure(o *quoratev1.WhatIfOutcome) string {
	switch {
	case o.Attempted == 0:
		return "nothing was asked for in this time, as far as is known"
	case d.accounts > 0:
		return fmt.Sprintf("about %d of %d units would have been refused (%s), if %d accounts had equal demand, a number with which the active rule refuses what was refused; at most %d, if one account had all the demand",
			o.RefusedLikely, o.Attempted, partText(o.RefusedLikely, o.Attempted), d.accounts, o.RefusedAtMost)
	case o.Exact:
		return fmt.Sprintf("exact: %d of %d tokens would have been refused (%s)", o.RefusedAtMost, o.Attempted, partText(o.RefusedAtMost, o.Attempted))
	}
	word := "between"
	if o.Estimate {
		word = "an estimate: between about"
	}
	if d.many {
		return fmt.Sprintf("about %d of %d tokens would have been refused (%s); between %d and %d, whenever each key's came (%s to %s)", o.RefusedLikely, o.Attempted,
			partText(o.RefusedLikely, o.Attempted), o.RefusedAtLeast, o.RefusedAtMost, partText(o.RefusedAtLeast, o.Attempted), partText(o.RefusedAtMost, o.Attempted))
	}
	return fmt.Sprintf("%s %d and %d of %d tokens would have been refused (%s to %s); %d if they came evenly", word, o.RefusedAtLeast, o.RefusedAtMost, o.Attempted,
		partText(o.RefusedAtLeast, o.Attempted), partText(o.RefusedAtMost, o.Attempted), o.RefusedIfEven)
}

func partText(part, of int64) string {
	if of == 0 {
		return "0%"
	}
	return fmt.Sprintf("%.3g%%", 100*float64(part)/float64(of))
}

// likeness states how the estimate for many keys is made.
func (d *demand) likeness() string {
	if d.seen == nil {
		return "the estimate assumes that each key's requests come at random, while the limit was busy; it cannot use the recorded refusals, because the active rule changed in that time or is not the only one that decides"
	}
	return fmt.Sprintf("the estimate, like the bounds, is calibrated so that the active rule refuses about the %d tokens that it did refuse", d.seen.Refused().Tokens())
}

// source states which demand an answer is based on.
func (d *demand) source() string {
	switch d.basis() {
	case quoratev1.Basis_BASIS_KEYS:
		return fmt.Sprintf("from what up to %d keys were asked for in each of %d times %v, wherever in it, and what all together were asked for", plannedKeys, d.keyed.Parts(), time.Duration(d.part)*time.Second)
	case quoratev1.Basis_BASIS_SECONDS:
		return "from the demand of every second"
	case quoratev1.Basis_BASIS_MINUTES:
		return "from the demand of every minute and its peak second: seconds are kept for an hour"
	}
	return "from the demand of every hour and its peak second: minutes are not kept for so long"
}

// incomplete states what is missing, and since when; empty if nothing is.
func incomplete(c *quoratev1.Coverage) string {
	if c.RangesCovered >= c.RangesTotal && c.SecondsComplete >= c.SecondsTotal && c.SecondsTotal > 0 {
		return ""
	}
	text := statement(c)
	if len(c.Missing) > 0 {
		text += "; missing " + strings.Join(c.Missing, ", ")
		if c.MissingSince != nil {
			text += " from " + c.MissingSince.AsTime().Format("15:04:05 on 2006-01-02")
		}
	}
	return text
}
