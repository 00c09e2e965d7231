package resp

import (
	"time"
	"unicode/utf8"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/suggest"
)

const allowName = "quorate.allow"

// allow reads QUORATE.ALLOW namespace limit key [cost].
func (c *conn) allow(args [][]byte) (q quota.Request, ok bool) {
	cost := int64(1)
	if ok = true; len(args) == 4 {
		cost, ok = c.numberIn("cost", args[3], 0, quota.MaxTokens)
	}
	if !ok || !c.named(args[0], args[1]) || !c.goodKey(args[2]) || !c.may("QUORATE.ALLOW", c.last.Namespace) {
		return q, false
	}
	return quota.Request{Key: quota.Key{LimitName: c.last, Key: string(args[2])}, Cost: cost}, true
}

// allowed answers QUORATE.ALLOW with six values: 1 if allowed, what remains, the milliseconds until a retry can
// pass (0 if it passed, -1 for never), the milliseconds until the tier that decided is full, the reason, and the
// limit that decided.
func (c *conn) allowed(q *quota.Request, d *quota.Decision) {
	if d.Limit == nil {
		c.failed(codeNoLimit, "NOLIMIT %s", c.unknown(q.Key.LimitName))
		return
	}
	base, _ := d.Limit.Base()
	passed, retry := int64(1), int64(0)
	if !d.Allowed {
		passed, retry = 0, wholeUp(d.RetryAfter, time.Millisecond)
	}
	c.array(6)
	c.int(passed)
	c.int(d.Remaining)
	c.int(retry)
	c.int(max(wholeUp(d.ResetAfter, time.Millisecond), 0))
	c.text(d.Why.String())
	c.text(base.Limit)
}

// miss is the text about the last unknown limit, which callers tend to repeat.
type miss struct {
	limits *quota.Limits // the current ones when it was made
	name   quota.LimitName
	text   string
}

// unknown returns the error about an unknown limit, with the names of existing ones. With
// authentication it names no other namespaces: their names are for callers with permissions there.
func (c *conn) unknown(n quota.LimitName) string {
	limits := c.node.Limits()
	if c.missed.text == "" || c.missed.limits != limits || c.missed.name != n {
		explain := suggest.Explain
		if c.opts.Guard != nil {
			explain = suggest.Within
		}
		c.missed = miss{limits, n, explain(n, limits)}
	}
	return c.missed.text
}

// named sets c.last to the limit that a call names, or answers with an error. It does not build the
// name again if the call before had the same one.
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

// goodKey reports whether a key is valid; if not, it answers with an error.
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
