package inprocess

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/juju/ratelimit"
	"github.com/puzpuzpuz/xsync/v4"
	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"
)

// plenty is a burst that no run exhausts.
const plenty = 1 << 40

const day = 24 * time.Hour

// store is a limiter of many keys. It opens a key at its first check.
type store interface{ allow(key string) bool }

// kind is the limit of a peer. never is a limit that, once exhausted, stays so for the run; enough
// is one that the run does not exhaust.
type kind bool

const (
	enough kind = true
	never  kind = false
)

func (k kind) burst() int {
	if k == enough {
		return plenty
	}
	return 1
}

// gcra is the generic cell rate algorithm in one word: the moment at which the bucket is full
// again. A decision takes one reading of the clock and one compare-and-swap.
type gcra struct{ full atomic.Int64 }

var began = time.Now()

func (g *gcra) allow(k kind) bool {
	step, burst := int64(1), int64(plenty)
	if k == never {
		step, burst = int64(day), int64(day)
	}
	now := int64(time.Since(began))
	for {
		was := g.full.Load()
		next := max(was, now) + step
		if next-now > burst {
			return false
		}
		if g.full.CompareAndSwap(was, next) {
			return true
		}
	}
}

func timeRateOf(k kind) *rate.Limiter {
	if k == enough {
		return rate.NewLimiter(1e12, plenty)
	}
	return rate.NewLimiter(rate.Every(day), 1)
}

// shards is the plain solution for many keys: maps with a lock each, which hold the state.
type shards [256]struct {
	sync.Mutex
	m map[string]int64
	_ [48]byte
}

func newShards() store {
	s := &shards{}
	for i := range s {
		s[i].m = map[string]int64{}
	}
	return s
}

func (s *shards) allow(key string) bool {
	at := &s[hash(key)%uint64(len(s))]
	now := int64(time.Since(began))
	at.Lock()
	next := max(at.m[key], now) + 1
	ok := next-now <= plenty
	if ok {
		at.m[key] = next
	}
	at.Unlock()
	return ok
}

type xsyncGCRA struct{ m *xsync.Map[string, *gcra] }

func newXsyncGCRA() store { return xsyncGCRA{xsync.NewMap[string, *gcra]()} }

func (s xsyncGCRA) allow(key string) bool {
	g, ok := s.m.Load(key)
	if !ok {
		g, _ = s.m.LoadOrStore(key, &gcra{})
	}
	return g.allow(enough)
}

type xsyncTimeRate struct {
	m *xsync.Map[string, *rate.Limiter]
}

func newXsyncTimeRate() store { return xsyncTimeRate{xsync.NewMap[string, *rate.Limiter]()} }

func (s xsyncTimeRate) allow(key string) bool {
	l, ok := s.m.Load(key)
	if !ok {
		l, _ = s.m.LoadOrStore(key, timeRateOf(enough))
	}
	return l.Allow()
}

type syncMapTimeRate struct{ m sync.Map }

func newSyncMapTimeRate() store { return &syncMapTimeRate{} }

func (s *syncMapTimeRate) allow(key string) bool {
	l, ok := s.m.Load(key)
	if !ok {
		l, _ = s.m.LoadOrStore(key, timeRateOf(enough))
	}
	return l.(*rate.Limiter).Allow()
}

type goLimiter struct{ s limiter.Store }

func newGoLimiter(k kind) (store, error) {
	s, err := memorystore.New(&memorystore.Config{Tokens: uint64(k.burst()), Interval: day, SweepInterval: day, SweepMinTTL: day})
	return goLimiter{s}, err
}

func (s goLimiter) allow(key string) bool {
	_, _, _, ok, err := s.s.Take(context.Background(), key)
	return ok && err == nil
}

type throttledStore struct{ l *throttled.GCRARateLimiterCtx }

func newThrottled(k kind) (store, error) {
	s, err := memstore.NewCtx(0) // 0: a map without a bound
	if err != nil {
		return nil, err
	}
	quota := throttled.RateQuota{MaxRate: throttled.PerSec(1e9), MaxBurst: plenty}
	if k == never {
		quota = throttled.RateQuota{MaxRate: throttled.PerDay(1)}
	}
	l, err := throttled.NewGCRARateLimiterCtx(s, quota)
	return throttledStore{l}, err
}

func (s throttledStore) allow(key string) bool {
	limited, _, err := s.l.RateLimitCtx(context.Background(), key, 1)
	return !limited && err == nil
}

type ululeStore struct{ l *ulule.Limiter }

func newUlule(k kind) store {
	return ululeStore{ulule.New(ululememory.NewStore(), ulule.Rate{Period: day, Limit: int64(k.burst())})}
}

func (s ululeStore) allow(key string) bool {
	res, err := s.l.Get(context.Background(), key)
	return !res.Reached && err == nil
}

func jujuOf(k kind) *ratelimit.Bucket {
	if k == enough {
		return ratelimit.NewBucketWithRate(1e9, plenty)
	}
	return ratelimit.NewBucket(day, 1)
}
