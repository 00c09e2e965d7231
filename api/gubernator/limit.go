package gubernator

import (
	"errors"
	"fmt"
	"strings"
	"time"

	pb "github.com/quorate/quorate/api/gen/pb/gubernator"
	"github.com/quorate/quorate/internal/quota"
)

// Bits of Behavior.
const (
	gregorian = pb.Behavior_DURATION_IS_GREGORIAN
	reset     = pb.Behavior_RESET_REMAINING
	drain     = pb.Behavior_DRAIN_OVER_LIMIT
	known     = pb.Behavior_NO_BATCHING | pb.Behavior_GLOBAL | gregorian | reset | pb.Behavior_MULTI_REGION | drain
)

// These errors have the exact words of gubernator's servers, because programs compare them. The
// name was once called namespace.
var (
	errNoName = errors.New("field 'namespace' cannot be empty")
	errNoKey  = errors.New("field 'unique_key' cannot be empty")
)

// central reports whether the leader of the key's range decides a limit that the request brings
// along. It does so where gubernator asks the key's owner: unless the request lets every server
// answer from what it knows.
func central(r *pb.RateLimitReq) bool {
	return r.GetBehavior()&pb.Behavior_GLOBAL == 0
}

// asked is a parsed request.
type asked struct {
	key  quota.Key
	hits int64
	// ours says that a limit of the namespace decides, and the caller's limit is ignored.
	ours bool
	// capacity is the most that the caller's limit lets pass at once, and limit is the number in
	// the answer.
	capacity, limit int64
	// leak is the time in which one hit comes back, in milliseconds, for the caller's LEAKY_BUCKET.
	leak float64
	// forgets says that the caller's limit remembers nothing: it lasts no time, or lets nothing
	// pass.
	forgets bool
}

// read validates a request and finds its limit. The error names the field.
func (s *Server) read(r *pb.RateLimitReq) (a asked, err error) {
	switch {
	case r.GetUniqueKey() == "":
		return a, errNoKey
	case r.GetName() == "":
		return a, errNoName
	case r.Hits < -quota.MaxTokens || r.Hits > quota.MaxTokens:
		return a, fmt.Errorf("hits: %d; must be %d to %d", r.Hits, -quota.MaxTokens, quota.MaxTokens)
	case r.Behavior&^known != 0:
		return a, fmt.Errorf("behavior: %d; must be a sum of 1, 2, 4, 8, 16 and 32", r.Behavior)
	}
	a.hits = r.Hits
	if name := (quota.LimitName{Namespace: Namespace, Limit: r.Name}); quota.CheckName("name", r.Name) == nil {
		_, a.ours = s.node.Limits().Find(name)
		a.key = quota.Key{LimitName: name, Key: r.UniqueKey}
	}
	if !a.ours {
		if err := a.inlineLimit(r); err != nil {
			return a, err
		}
	}
	if n := len(a.key.Key); n > quota.MaxKeyLen {
		return a, fmt.Errorf("unique_key: is %d bytes with the name; at most %d; send a hash of it", n, quota.MaxKeyLen)
	}
	return a, nil
}

// inlineLimit sets the limit that the request carries.
func (a *asked) inlineLimit(r *pb.RateLimitReq) error {
	a.limit, a.capacity = r.Limit, r.Limit
	if r.Algorithm == pb.Algorithm_LEAKY_BUCKET && r.Burst != 0 {
		a.capacity = r.Burst
	}
	for _, f := range [...]struct {
		name  string
		value int64
	}{{"limit", r.Limit}, {"burst", r.Burst}} {
		if f.value < 0 || f.value > quota.MaxTokens {
			return fmt.Errorf("%s: %d; must be 0 to %d", f.name, f.value, quota.MaxTokens)
		}
	}
	in, err := inline(r, a.capacity)
	switch {
	case err != nil:
		return err
	case r.Limit == 0:
		a.forgets, a.capacity = true, 0
		return nil
	case in.Rate.Per == 0:
		a.forgets = true
		return nil
	}
	if r.Algorithm == pb.Algorithm_LEAKY_BUCKET {
		a.leak = float64(in.Rate.Per) / float64(time.Millisecond) / float64(r.Limit)
	}
	a.key.Key = keyOf(r.Name, r.UniqueKey)
	if a.key.LimitName, err = in.Name(Namespace); err != nil {
		return fmt.Errorf("limit %d, duration %d, burst %d: %w", r.Limit, r.Duration, r.Burst, err)
	}
	return nil
}

// units are the units of Gregorian durations.
var units = quota.CalendarUnits()

// inline returns the limit that a request describes.
func inline(r *pb.RateLimitReq, capacity int64) (in quota.Inline, err error) {
	in = quota.Inline{Burst: capacity, Rate: quota.Rate{Tokens: r.Limit}}
	if central(r) {
		in.Decide = quota.AtLeader
	}
	switch {
	case r.Behavior&gregorian != 0 && (r.Duration < 0 || r.Duration >= int64(len(units))):
		return in, fmt.Errorf("duration: %d with DURATION_IS_GREGORIAN; must be 0 to %d: minute, hour, day, week, month, year", r.Duration, len(units)-1)
	case r.Behavior&gregorian != 0:
		in.Calendar = units[r.Duration]
		in.Rate.Per = in.Calendar.Nominal()
	case r.Duration < 0 || r.Duration > quota.MaxPause.Milliseconds():
		return in, fmt.Errorf("duration: %d ms; must be 0 to %d", r.Duration, quota.MaxPause.Milliseconds())
	default:
		in.Rate.Per = time.Duration(r.Duration) * time.Millisecond
	}
	switch {
	case r.Algorithm == pb.Algorithm_LEAKY_BUCKET:
		in.Kind, in.Calendar = quota.TokenBucket, quota.NoUnit
	case r.Algorithm != pb.Algorithm_TOKEN_BUCKET:
		return in, fmt.Errorf("algorithm: %d; must be TOKEN_BUCKET (0) or LEAKY_BUCKET (1)", r.Algorithm)
	case in.Calendar != quota.NoUnit:
		in.Kind = quota.CalendarWindow
	default:
		in.Kind = quota.PeriodicRefill
	}
	return in, nil
}

var escaper = strings.NewReplacer("%", "%25", "/", "%2F")

// keyOf joins a name and a key so that no two pairs collide.
func keyOf(name, key string) string { return escaper.Replace(name) + "/" + key }
