package journal

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// firstSteps is how long the file is at least: a burst of new keys finds room
// while it grows.
const firstSteps = 2

// FileName is the journal's name in the data directory.
const FileName = "counts.journal"

// Config says whose journal it is.
type Config struct {
	Dir     string // exists, and is locked by this process
	Cluster string
	Node    quota.NodeID
	Life    quota.Incarnation // of this process; larger than every earlier one
	// Prior is the life of the process of this node before this one; 0 is none: the
	// node is new.
	Prior quota.Incarnation
	// MaxSlots bounds the keys, 2048 to MaxSlots in steps of 1024; 0 is MaxSlots.
	MaxSlots int
	Logger   *slog.Logger // nil is nobody
}

// Journal is an open journal. All methods are safe for concurrent use, and
// none blocks but Open and Close.
type Journal struct {
	cfg      Config
	log      *slog.Logger
	path     string
	maxSlots int
	file     *os.File
	head     *header
	maps     *maps
	closed   atomic.Bool
	allocate func(f *os.File, from int64, size int) error
	toGrow   chan struct{}
	grown    chan struct{} // closed when nothing grows any more

	tooLong, noRoom atomic.Int64

	mu      sync.Mutex
	steps   [][]slot
	free    []int
	earlier map[who]int // slots of earlier lives
	lives   map[quota.Incarnation]int
	growing bool
	full    bool // the last attempt to grow failed
	retryAt time.Time

	inherited []quota.RecoveredCounts
}

var _ aggregator.Journal = (*Journal)(nil)

// who is what a slot is for.
type who struct {
	key   quota.Key
	life  quota.Incarnation
	birth quota.Seq
}

// maps is the mapped memory. It is given back when nobody can reach a slot any
// more: a check that is still on its way must not find it gone.
type maps struct{ all [][]byte }

func (m *maps) add(b []byte) { m.all = append(m.all, b) }

func (m *maps) drop() {
	for _, b := range m.all {
		unmap(b)
	}
}

// Open opens the node's journal, or makes one. The error beside a journal says
// what was wrong with the file that it found, which has been moved aside. An
// error without a journal means that none can be kept: no room, or no way to
// map files.
func Open(cfg Config) (*Journal, error) {
	j := &Journal{
		cfg: cfg, log: cfg.Logger, path: filepath.Join(cfg.Dir, FileName), maxSlots: cfg.MaxSlots, maps: &maps{}, allocate: allocate,
		toGrow: make(chan struct{}, 1), grown: make(chan struct{}), earlier: map[who]int{}, lives: map[quota.Incarnation]int{},
	}
	if j.maxSlots == 0 {
		j.maxSlots = MaxSlots
	}
	if j.maxSlots < firstSteps*stepSlots || j.maxSlots > MaxSlots || j.maxSlots%stepSlots != 0 {
		return nil, fmt.Errorf("journal: max slots: %d; must be %d to %d in steps of %d", j.maxSlots, firstSteps*stepSlots, MaxSlots, stepSlots)
	}
	if j.log == nil {
		j.log = slog.New(slog.DiscardHandler)
	}
	old, exists, fault := j.load()
	if fault != nil {
		fault = fmt.Errorf("journal %s: %w", j.path, fault)
	}
	if err := j.start(old, !exists || fault != nil); err != nil {
		j.maps.drop()
		if j.file != nil {
			err = errors.Join(err, j.file.Close())
		}
		return nil, errors.Join(fault, fmt.Errorf("journal: %w", err))
	}
	runtime.AddCleanup(j, (*maps).drop, j.maps)
	go j.growWhenAsked()
	return j, fault
}

// load reads the file, if there is one.
func (j *Journal) load() (c content, exists bool, err error) {
	f, err := os.Open(j.path)
	if errors.Is(err, os.ErrNotExist) {
		return content{}, false, nil
	}
	if err != nil {
		return content{}, true, err
	}
	data, err := io.ReadAll(io.LimitReader(f, headerSize+maxSteps*stepSize))
	if err := errors.Join(err, f.Close()); err != nil {
		return content{}, true, err
	}
	c, err = decode(data, j.cfg.Cluster, j.cfg.Node)
	return c, true, err
}

// start maps the file: the one that is there; or a new one, with what is whole
// of the old.
func (j *Journal) start(old content, anew bool) error {
	path := j.path
	if anew {
		path += ".new"
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := j.openFile(path); err != nil {
		return err
	}
	for range max(firstSteps, old.steps) {
		slots, err := j.addStep()
		if err != nil {
			return err
		}
		j.adopt(slots)
	}
	for _, f := range old.used {
		if anew {
			f.at = j.restore(f.entry)
		}
		j.earlier[who{f.entry.Key, f.entry.Life, f.entry.Birth}] = f.at
		j.lives[f.entry.Life]++
		j.inherited = append(j.inherited, f.entry)
	}
	if err := j.begin(anew); err != nil {
		return err
	}
	if anew {
		return j.replace(path)
	}
	return nil
}

// openFile opens or makes a file and maps its header.
func (j *Journal) openFile(path string) error {
	var err error
	if j.file, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	info, err := j.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		if _, err := j.file.Write(bytesOf(newHeader(j.cfg.Cluster, j.cfg.Node))); err != nil {
			return err
		}
	}
	m, err := mapShared(j.file, 0, headerSize)
	if err != nil {
		return err
	}
	j.maps.add(m)
	j.head = (*header)(unsafe.Pointer(&m[0]))
	return nil
}

// restore writes what an earlier life had counted into a free slot.
func (j *Journal) restore(e quota.RecoveredCounts) int {
	p := j.claim(e.Key, e.Life, e.Birth)
	p.Set(e.Counts)
	return p.at
}

// replace puts the new file in the place of the old one, if there is one, which
// it keeps under another name. At every moment one of them has the right name.
func (j *Journal) replace(path string) error {
	aside := j.path + ".corrupt"
	if _, err := os.Lstat(j.path); err == nil {
		if err := os.Remove(aside); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.Link(j.path, aside); err != nil {
			if err := os.Rename(j.path, aside); err != nil { // a file system without links
				return err
			}
		}
	}
	return os.Rename(path, j.path)
}

// Inherited returns what earlier processes of this node had counted, as of
// Open. The caller owns it.
func (j *Journal) Inherited() []quota.RecoveredCounts {
	out := j.inherited
	j.inherited = nil
	return out
}

// Slot implements aggregator.Journal.
func (j *Journal) Slot(k quota.Key, birth quota.Seq) aggregator.JournalSlot {
	if len(k.Namespace)+len(k.Limit)+len(k.Key) > maxText {
		j.miss(&j.tooLong)
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.free) <= ahead {
		j.askToGrow()
	}
	if len(j.free) == 0 || j.closed.Load() {
		j.miss(&j.noRoom)
		return nil
	}
	return j.claim(k, j.cfg.Life, birth)
}

// claim uses a free slot; there is one. Locked.
func (j *Journal) claim(k quota.Key, life quota.Incarnation, birth quota.Seq) *place {
	at := j.free[len(j.free)-1]
	j.free = j.free[:len(j.free)-1]
	s := j.at(at)
	s.write(k, life, birth)
	p := &place{j: j, p: s, at: at, id: s.hash()}
	s.halves = [2]half{}
	p.Set(quota.Counts{})
	atomic.StoreUint64(&s.id, p.id)
	return p
}

func (j *Journal) at(i int) *slot { return &j.steps[i/stepSlots][i%stepSlots] }

// release makes a slot free.
func (j *Journal) release(at int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed.Load() {
		return
	}
	atomic.StoreUint64(&j.at(at).id, 0)
	j.free = append(j.free, at)
}

// Settled implements aggregator.Journal. What is not there is settled already.
func (j *Journal) Settled(k quota.Key, life quota.Incarnation, birth quota.Seq) {
	j.mu.Lock()
	w := who{k, life, birth}
	at, ok := j.earlier[w]
	if ok {
		delete(j.earlier, w)
		if j.lives[life]--; j.lives[life] == 0 {
			delete(j.lives, life)
		}
	}
	j.mu.Unlock()
	if ok {
		j.release(at)
	}
}

// Stats is how a journal is used.
type Stats struct {
	Slots   int   // allocated
	Used    int   // of them, in use
	Earlier int   // of those, of earlier lives that no leader has settled yet
	Lives   int   // how many lives these are of
	TooLong int64 // keys not journalled, since they are too long
	NoRoom  int64 // keys not journalled, for want of slots
	Full    bool  // the disk, or whatever else keeps the file from growing
}

// Stats returns how the journal is used.
func (j *Journal) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.steps) * stepSlots
	return Stats{
		Slots: n, Used: n - len(j.free), Earlier: len(j.earlier), Lives: len(j.lives),
		TooLong: j.tooLong.Load(), NoRoom: j.noRoom.Load(), Full: j.full,
	}
}

// Close ends the writing. The file keeps what no leader has committed. Slots
// may still be used, to no effect.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed.Swap(true) {
		j.mu.Unlock()
		return nil
	}
	close(j.toGrow)
	j.mu.Unlock()
	<-j.grown
	return errors.Join(j.end(), j.file.Close())
}
