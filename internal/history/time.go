package history

// BlockSeconds is how many seconds are told and kept together. What a process
// counted in its last block is lost if it is killed.
const BlockSeconds = 10

// Second is a second of true time: since the Unix epoch.
type Second int64

// Block is BlockSeconds seconds, numbered since the Unix epoch.
type Block int64

// Minute is sixty seconds, numbered since the Unix epoch.
type Minute int64

const blocksPerMinute = 60 / BlockSeconds

// Block returns the block that the second is in.
func (s Second) Block() Block { return Block(floorDiv(int64(s), BlockSeconds)) }

// in returns which second of its block it is.
func (s Second) in() int { return int(s - s.Block().First()) }

// First returns the block's first second.
func (b Block) First() Second { return Second(b) * BlockSeconds }

// End returns the first second after the block.
func (b Block) End() Second { return (b + 1).First() }

// Minute returns the minute that the block is in.
func (b Block) Minute() Minute { return Minute(floorDiv(int64(b), blocksPerMinute)) }

// First returns the minute's first block.
func (m Minute) First() Block { return Block(m) * blocksPerMinute }

// Start returns the minute's first second.
func (m Minute) Start() Second { return m.First().First() }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
