package limitertest

import (
	"math/big"

	"github.com/quorate/quorate/internal/quota"
)

// bucket keeps the state of quotaservice's algorithm: the tokens accumulated so far, and the time
// at which the next ones are available, which is in the future while callers must wait. With a rate
// of 0 that time never comes, so debt is kept separately.
type bucket struct {
	tier                quota.Tier
	now                 quota.Time
	accumulated         *big.Rat
	tokensNextAvailable *big.Rat // nanoseconds
	lost                *big.Rat // debt that a rate of 0 never repays
}

// rate returns units per nanosecond.
func (b *bucket) rate() *big.Rat {
	return big.NewRat(int64(quota.FromTokens(b.tier.Rate.Tokens)), int64(b.tier.Rate.Per))
}

func (b *bucket) advance(now quota.Time) {
	b.now = now
	fresh := new(big.Rat).Sub(whole(int64(now)), b.tokensNextAvailable)
	if fresh.Sign() <= 0 {
		return
	}
	b.accumulated = new(big.Rat).Add(b.accumulated, fresh.Mul(fresh, b.rate()))
	if top := units(b.tier); b.accumulated.Cmp(top) > 0 {
		b.accumulated = top
	}
	b.tokensNextAvailable = whole(int64(now))
}

func (b *bucket) level() *big.Rat {
	owed := new(big.Rat).Sub(b.tokensNextAvailable, whole(int64(b.now)))
	owed.Mul(owed, b.rate())
	return owed.Sub(new(big.Rat).Sub(b.accumulated, b.lost), owed)
}

func (b *bucket) add(u *big.Rat) { b.set(new(big.Rat).Add(b.level(), u)) }

func (b *bucket) set(level *big.Rat) {
	b.accumulated, b.tokensNextAvailable, b.lost = new(big.Rat), whole(int64(b.now)), new(big.Rat)
	top := units(b.tier)
	switch {
	case level.Cmp(top) > 0:
		b.accumulated = top
	case level.Sign() >= 0:
		b.accumulated = level
	case b.rate().Sign() == 0:
		b.lost = new(big.Rat).Neg(level)
	default:
		wait := new(big.Rat).Quo(level, b.rate())
		b.tokensNextAvailable.Sub(b.tokensNextAvailable, wait)
	}
}

// retier keeps the level, rounded down to a multiple of one unit divided by the new period.
func (b *bucket) retier(t quota.Tier) {
	level := b.level()
	if t.Rate.Per != b.tier.Rate.Per {
		per := whole(int64(t.Rate.Per))
		level.SetInt(floor(level.Mul(level, per))).Quo(level, per)
	}
	b.tier = t
	b.set(level)
}

func (b *bucket) clone() counter { c := *b; return &c } // no Rat is changed in place once it is stored
