package history

// SlotSeconds is the length of a time slot, the unit of upload and storage. A killed process loses what
// it counted in its last slot.
const SlotSeconds = 10

// Second is a second of true time, counted since the Unix epoch.
type Second int64

// Slot is a period of SlotSeconds seconds, numbered since the Unix epoch.
type Slot int64

// Minute is a period of sixty seconds, numbered since the Unix epoch.
type Minute int64

const slotsPerMinute = 60 / SlotSeconds

// Slot returns the slot that contains the second.
func (s Second) Slot() Slot { return Slot(floorDiv(int64(s), SlotSeconds)) }

// in returns the second's position in its slot, from 0.
func (s Second) in() int { return int(s - s.Slot().First()) }

// First returns the slot's first second.
func (b Slot) First() Second { return Second(b) * SlotSeconds }

// End returns the first second after the slot.
func (b Slot) End() Second { return (b + 1).First() }

// Minute returns the minute that contains the slot.
func (b Slot) Minute() Minute { return Minute(floorDiv(int64(b), slotsPerMinute)) }

// First returns the minute's first slot.
func (m Minute) First() Slot { return Slot(m) * slotsPerMinute }

// Start returns the minute's first second.
func (m Minute) Start() Second { return m.First().First() }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
