package quota

import (
	"fmt"
	"time"
)

// Class distinguishes limits that count from those that admit or refuse everything.
type Class uint8

const (
	// Counted is every ordinary limit.
	Counted Class = iota
	// Unlimited admits everything.
	Unlimited
	// Banned refuses everything.
	Banned
)

var classWords = [...]string{"counted", "unlimited", "banned"}

// String returns the word.
func (c Class) String() string { return word(classWords[:], uint8(c)) }

// Enforcement determines whether a refusal takes effect.
type Enforcement uint8

const (
	// Enforce refuses. The default.
	Enforce Enforcement = iota
	// Shadow decides, counts and reports, but admits everything.
	Shadow
	// Off admits everything and counts nothing.
	Off
)

var enforcementWords = [...]string{"enforce", "shadow", "off"}

// Enforcements returns all values.
func Enforcements() []Enforcement { return []Enforcement{Enforce, Shadow, Off} }

// String returns the word used in limit files.
func (e Enforcement) String() string { return word(enforcementWords[:], uint8(e)) }

// Decide is the place where a limit is decided.
type Decide uint8

const (
	// DecideDefault is Auto.
	DecideDefault Decide = iota
	// AtLeader asks the leader of the key's range: one hop, exact.
	AtLeader
	// Auto decides in memory where that is enough, and otherwise makes one hop: under hard the leader decides, under
	// soft it reports the level.
	Auto
	// Locally decides in the memory of the process that receives the request, and never waits.
	Locally
)

var decideWords = [...]string{"default", "leader", "auto", "local"}

// Decides returns the values that a limit file can name.
func Decides() []Decide { return []Decide{Locally, AtLeader, Auto} }

// String returns the word used in limit files.
func (d Decide) String() string { return word(decideWords[:], uint8(d)) }

// CutOffPolicy is a member's behaviour after a whole lease without an answer from the leader.
type CutOffPolicy uint8

const (
	// CutOffDefault is CutOffLocal under soft and CutOffHold under hard.
	CutOffDefault CutOffPolicy = iota
	// CutOffLocal applies the whole limit, counted on this node alone.
	CutOffLocal
	// CutOffShare applies the share of the rate that this node had last.
	CutOffShare
	// CutOffHold spends held tokens, then refuses.
	CutOffHold
	// CutOffOpen admits everything.
	CutOffOpen
	// CutOffClosed refuses everything.
	CutOffClosed
	// CutOffRate applies a fixed rate on each node.
	CutOffRate
)

var cutOffWords = [...]string{"default", "local", "share", "hold", "open", "closed", "rate"}

// CutOffPolicies returns the policies that a limit file can name.
func CutOffPolicies() []CutOffPolicy {
	return []CutOffPolicy{CutOffLocal, CutOffShare, CutOffHold, CutOffOpen, CutOffClosed}
}

// String returns the word used in limit files.
func (p CutOffPolicy) String() string { return word(cutOffWords[:], uint8(p)) }

// CutOff is a limit's behaviour without a leader, at first and after a time.
type CutOff struct {
	Policy CutOffPolicy
	Rate   Rate // per node, for CutOffRate
	// After is the time without a leader after which Then applies; 0 means never.
	After    time.Duration
	Then     CutOffPolicy
	ThenRate Rate // per node, if Then is CutOffRate
}

// At returns the policy, and its rate, after being cut off for d.
func (c CutOff) At(d time.Duration, ceiling Ceiling) (CutOffPolicy, Rate) {
	p, r := c.Policy, c.Rate
	if c.After > 0 && d >= c.After {
		p, r = c.Then, c.ThenRate
	}
	switch {
	case p != CutOffDefault:
		return p, r
	case ceiling == Hard:
		return CutOffHold, r
	}
	return CutOffLocal, r
}

func (c CutOff) validate(ceiling Ceiling, add func(error)) {
	check := func(field string, p CutOffPolicy, r Rate) {
		switch {
		case int(p) >= len(cutOffWords):
			add(fmt.Errorf("%s: %d; must be one of %v", field, p, CutOffPolicies()))
		case ceiling == Hard && p != CutOffDefault && p != CutOffHold && p != CutOffClosed:
			add(fmt.Errorf("%s: %v; a hard limit allows only hold or closed; the others could exceed it", field, p))
		case p == CutOffRate && (r.Per <= 0 || r.Tokens < 0 || r.PerSecond() > FromTokens(MaxTokens)):
			add(fmt.Errorf("%s: rate %d per %v; must be 0 or more tokens per positive period", field, r.Tokens, r.Per))
		}
	}
	check("when_cut_off", c.Policy, c.Rate)
	if c.After < 0 {
		add(fmt.Errorf("when_cut_off.after: %v; must be positive", c.After))
	}
	if c.After > 0 {
		check("when_cut_off.then", c.Then, c.ThenRate)
	}
}
