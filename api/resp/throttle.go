package resp

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

const throttleName = "cl.throttle"

// Namespace is the namespace of the buckets of CL.THROTTLE. The command needs the permission check
// in it.
const Namespace = "redis"

// maxPeriod is the longest period in seconds.
const maxPeriod = int64(quota.MaxPause / time.Second)

// inlined caches the names of the limits that a connection's calls described recently, so that they
// are not built again for each call.
type inlined struct {
	names map[description]quota.LimitName
}

// maxInlined is the size of the cache. One more entry empties it first.
const maxInlined = 64

// description is a bucket as CL.THROTTLE describes it.
type description struct{ maxBurst, count, period int64 }

// inline returns the limit: a bucket that holds max_burst+1 tokens and refills by count per period.
// The leader of the key's range decides it: a node reports the first use of a full bucket up to a
// sync interval late, so a bucket that nodes decide would refill that much later than the answers
// say.
func (d description) inline() quota.Inline {
	return quota.Inline{
		Kind: quota.TokenBucket, Burst: d.maxBurst + 1, Rate: quota.Rate{Tokens: d.count, Per: time.Duration(d.period) * time.Second},
		Decide: quota.AtLeader,
	}
}

func (i *inlined) name(d description) (quota.LimitName, error) {
	if n, ok := i.names[d]; ok {
		return n, nil
	}
	n, err := d.inline().Name(Namespace)
	if err != nil {
		return n, err
	}
	if i.names == nil || len(i.names) >= maxInlined {
		i.names = map[description]quota.LimitName{}
	}
	i.names[d] = n
	return n, nil
}

// throttle reads CL.THROTTLE key max_burst count_per_period period [quantity].
func (c *conn) throttle(args [][]byte) (q quota.Request, ok bool) {
	d, quantity, ok := c.described(args[1:])
	if !ok || !c.goodKey(args[0]) || !c.may("CL.THROTTLE", Namespace) {
		return q, false
	}
	limit, err := c.inlined.name(d)
	if err != nil {
		c.invalid("ERR %v", err)
		return q, false
	}
	if !c.node.AdmitInline(limit, c.shareOwner()) {
		c.opts.Seen(&quota.Decision{Why: quota.WhyNoLimit})
		c.noRoom()
		return q, false
	}
	return quota.Request{Key: quota.Key{LimitName: limit, Key: string(args[0])}, Cost: quantity}, true
}

// noRoom answers with an error: a refusal would ask the caller to come back at once.
func (c *conn) noRoom() {
	c.failed(codeUnavailable, "TRYAGAIN the node has no room for another bucket of callers, or of this caller; give some of them the same numbers, or define limits")
}

// throttled answers CL.THROTTLE with five numbers: 1 if limited, the limit, what remains, the seconds until a retry
// can pass (-1 if it passed, or for never), and the seconds until the bucket is full.
func (c *conn) throttled(q *quota.Request, d *quota.Decision) {
	if d.Limit == nil { // it lost its room after AdmitInline
		c.noRoom()
		return
	}
	limited, retry := int64(0), int64(-1)
	if !d.Allowed && q.Cost > 0 { // asking for nothing is never refused
		limited, retry = 1, seconds(d.RetryAfter)
	}
	c.array(5)
	c.int(limited)
	c.int(d.Limit.Burst)
	c.int(d.Remaining)
	c.int(retry)
	c.int(max(seconds(d.ResetAfter), 0))
}

// throttleArgs are the numbers of CL.THROTTLE, in order.
var throttleArgs = [...]struct {
	name      string
	low, high int64
}{
	{"max_burst", 0, quota.MaxTokens - 1},
	{"count_per_period", 1, quota.MaxTokens},
	{"period in seconds", 1, maxPeriod},
	{"quantity", 0, quota.MaxTokens},
}

// described parses max_burst count_per_period period [quantity].
func (c *conn) described(args [][]byte) (d description, quantity int64, ok bool) {
	n := [len(throttleArgs)]int64{3: 1}
	for i, f := range &throttleArgs {
		if i >= len(args) {
			break
		}
		if n[i], ok = c.numberIn(f.name, args[i], f.low, f.high); !ok {
			return d, 0, false
		}
	}
	return description{n[0], n[1], n[2]}, n[3], true
}

// seconds returns whole seconds, rounded up; -1 for never.
func seconds(d time.Duration) int64 { return wholeUp(d, time.Second) }

// wholeUp returns how many units there are in d, rounded up; -1 for never.
func wholeUp(d, unit time.Duration) int64 {
	if d == math.MaxInt64 {
		return -1
	}
	n := int64(d / unit)
	if d%unit > 0 {
		n++
	}
	return n
}
