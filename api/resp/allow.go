package resp

import (
	"time"
	"unicode/utf8"

	"github.com/quorate/quorate/internal/quota"
)

const allowName = "quorate.allow"

// allow answers QUORATE.ALLOW namespace limit key [cost] with six values: 1 if it
// is allowed, what remains, in how many milliseconds to try again (0 if it passed,
// -1 if it never will), in how many the tier that decided is full, why, and which
// limit decided.
func (c *conn) allow(args [][]byte) {
	cost, ok := int64(1), true
	if len(args) == 4 {
		cost, ok = c.numberIn("cost", args[3], 0, quota.MaxTokens)
	}
	if !ok || !c.named(args[0], args[1]) || !c.goodKey(args[2]) || !c.may("QUORATE.ALLOW", c.last.Namespace) {
		return
	}
	dec := c.decide(quota.Key{LimitName: c.last, Key: string(args[2])}, cost)
	switch {
	case dec == nil:
		return
	case dec.Limit == nil:
		c.failed(codeNoLimit, "NOLIMIT there is no limit %s, and no template or default for it", c.last)
		return
	}
	base, _ := dec.Limit.Base()
	allowed, retry := int64(1), int64(0)
	if !dec.Allowed {
		allowed, retry = 0, wholeUp(dec.RetryAfter, time.Millisecond)
	}
	c.array(6)
	c.int(allowed)
	c.int(dec.Remaining)
	c.int(retry)
	c.int(max(wholeUp(dec.ResetAfter, time.Millisecond), 0))
	c.text(dec.Why.String())
	c.text(base.Limit)
}

// named makes c.last the limit that a call names, or answers what is wrong. What
// the call before named is not made again.
func (c *conn) named(namespace, limit []byte) bool {
	if string(namespace) == c.last.Namespace && string(limit) == c.last.Limit {
		return true
	}
	n := quota.LimitName{Namespace: string(namespace), Limit: string(limit)}
	for _, f := range [...][2]string{{"namespace", n.Namespace}, {"limit", n.Limit}} {
		if err := quota.CheckName(f[0], f[1]); err != nil {
			c.invalid("ERR %v", err)
			return false
		}
	}
	c.last = n
	return true
}

// goodKey says whether a key is one, or answers what is wrong.
func (c *conn) goodKey(key []byte) bool {
	switch {
	case len(key) == 0:
		c.invalid("ERR key: is empty; must be 1 to %d bytes", quota.MaxKeyLen)
	case len(key) > quota.MaxKeyLen:
		c.invalid("ERR key: is %d bytes; at most %d", len(key), quota.MaxKeyLen)
	case !utf8.Valid(key):
		c.invalid("ERR key: is not UTF-8")
	default:
		return true
	}
	return false
}

// decide asks the node, without a wait: the protocol has no words for going ahead
// later. It returns nil after an answer of its own. The decision is valid until
// the next one.
func (c *conn) decide(k quota.Key, cost int64) *quota.Decision {
	c.req[0] = quota.Request{Key: k, Cost: cost}
	c.node.Decide(c.req[:], c.dec[:])
	d := &c.dec[0]
	c.opts.Seen(d)
	switch {
	case d.Why == quota.WhyUnknown:
		c.failed(codeUnavailable, "TRYAGAIN the node could not decide")
		return nil
	case d.Allowed:
		c.code = codeAllowed
	default:
		c.code = codeRefused
	}
	return d
}
