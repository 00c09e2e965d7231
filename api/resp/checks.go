package resp

import (
	"bytes"
	"sync"

	"github.com/quorate/quorate/internal/quota"
)

// maxChecks bounds the checks that are decided together.
const maxChecks = 64

// pipeline holds checks of one connection that are decided together, so that those that leaders decide take one round
// trip.
type pipeline struct {
	commands []*command
	reqs     []quota.Request
	out      [maxChecks]quota.Decision
	calls    [maxChecks]quota.Call
}

var pipelines = sync.Pool{New: func() any { return new(pipeline) }}

// addCheck adds a check to those that are decided together.
func (c *conn) addCheck(cmd *command, args [][]byte) {
	start := len(c.out)
	req, ok := cmd.check(c, args)
	if !ok { // the error comes after the answers to earlier checks
		code, fault := c.code, bytes.Clone(c.out[start:])
		c.out = c.out[:start]
		c.decideChecks()
		c.out = append(c.out, fault...)
		c.opts.Count(code)
		return
	}
	if c.checks == nil {
		c.checks = pipelines.Get().(*pipeline)
	}
	p := c.checks
	p.commands, p.reqs = append(p.commands, cmd), append(p.reqs, req)
	if len(p.reqs) == maxChecks {
		c.decideChecks()
	}
}

// decideChecks decides and answers the checks that were added, without a wait for tokens to come: the protocol cannot tell
// a caller to go ahead later.
func (c *conn) decideChecks() {
	p := c.checks
	if p == nil {
		return
	}
	n := len(p.reqs)
	if n == 1 {
		c.node.Decide(p.reqs, p.out[:1])
	} else {
		for i := range n {
			p.calls[i] = quota.Call{Requests: p.reqs[i : i+1], Out: p.out[i : i+1]}
		}
		c.node.Batch()(p.calls[:n])
	}
	for i, cmd := range p.commands {
		d := &p.out[i]
		c.opts.Seen(d)
		if d.Why == quota.WhyUnknown {
			c.failed(codeUnavailable, "TRYAGAIN the node could not decide")
		} else {
			if c.code = codeRefused; d.Allowed {
				c.code = codeAllowed
			}
			cmd.answer(c, &p.reqs[i], d)
		}
		c.opts.Count(c.code)
	}
	clear(p.reqs)
	clear(p.out[:n])
	clear(p.calls[:n])
	p.commands, p.reqs, c.checks = p.commands[:0], p.reqs[:0], nil
	pipelines.Put(p)
}
