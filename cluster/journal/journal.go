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
	"github.com/quorate/quorate/internal/syncdir"
)

// firstSteps is the minimum length of the file in steps: it has room for a burst of new keys while
// the file grows.
const firstSteps = 2

// FileName is the journal's name in the data directory.
const FileName = "counts.journal"

// Config configures a journal.
type Config struct {
	Dir         string // exists, and is locked by this process
	Cluster     string
	Node        quota.NodeID
	Incarnation quota.Incarnation // of this process; larger than all earlier ones
	// Prior is that of the node's previous process; 0 means that the node is new.
	Prior quota.Incarnation
	// MaxSlots bounds the keys, 2048 to MaxSlots in steps of 1024; 0 means MaxSlots.
	MaxSlots int
	Logger   *slog.Logger // nil discards logs
}

// Journal is an open journal. All methods are safe for concurrent use, and only Open and Close
// block.
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
	grown    chan struct{} // closed when growWhenAsked has ended

	tooLong, noRoom atomic.Int64

	mu           sync.Mutex
	steps        [][]slot
	free         []int
	earlier      map[quota.Opening]int // slots of earlier processes
	incarnations map[quota.Incarnation]int
	growing      bool
	full         bool // the last attempt to grow failed
	retryAt      time.Time

	inherited []quota.RecoveredCounts
}

var _ aggregator.Journal = (*Journal)(nil)

// maps is the mapped memory. It is unmapped only when no slot is reachable any more, because a
// check in progress may still write to one.
type maps struct{ all [][]byte }

func (m *maps) add(b []byte) { m.all = append(m.all, b) }

func (m *maps) drop() {
	for _, b := range m.all {
		unmap(b)
	}
}

// Open opens the node's journal, or creates it. An error beside a journal describes what was wrong
// with the existing file, which has been moved aside. An error without a journal means that none
// can be kept: there is no room, or the system cannot map files.
func Open(cfg Config) (*Journal, error) {
	j := &Journal{
		cfg: cfg, log: cfg.Logger, path: filepath.Join(cfg.Dir, FileName), maxSlots: cfg.MaxSlots, maps: &maps{}, allocate: allocate,
		toGrow: make(chan struct{}, 1), grown: make(chan struct{}), earlier: map[quota.Opening]int{}, incarnations: map[quota.Incarnation]int{},
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

// load reads the file, if it exists.
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

// start maps the existing file, or a new one that gets the whole slots of the old one.
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
			p := j.claim(f.entry.Opening)
			p.Set(f.entry.Counts)
			f.at = p.at
		}
		j.earlier[f.entry.Opening] = f.at
		j.incarnations[f.entry.Incarnation]++
		j.inherited = append(j.inherited, f.entry)
	}
	if err := j.markOpen(anew); err != nil {
		return err
	}
	if anew {
		return j.replace(path)
	}
	return nil
}

// openFile opens or creates a file and maps its header.
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

// replace moves the new file to the place of the old one. If there is an old file, it keeps that
// under another name. At every moment, one of them has the right name, if the file system has
// links.
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
	if err := os.Rename(path, j.path); err != nil {
		return err
	}
	return syncdir.Sync(filepath.Dir(j.path))
}

// Inherited returns the counts of earlier processes of this node, as of Open. The caller owns the
// result; later calls return nil.
func (j *Journal) Inherited() []quota.RecoveredCounts {
	out := j.inherited
	j.inherited = nil
	return out
}

// Slot implements aggregator.Journal.
func (j *Journal) Slot(k quota.Key, epoch quota.Seq) aggregator.JournalSlot {
	if len(k.Namespace)+len(k.Limit)+len(k.Key) > maxText {
		j.countMissed(&j.tooLong)
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.free) <= ahead {
		j.askToGrow()
	}
	if len(j.free) == 0 || j.closed.Load() {
		j.countMissed(&j.noRoom)
		return nil
	}
	return j.claim(quota.Opening{Key: k, Incarnation: j.cfg.Incarnation, Epoch: epoch})
}

// claim claims a free slot, which must exist. The caller holds j.mu, or is Open.
func (j *Journal) claim(o quota.Opening) *place {
	at := j.free[len(j.free)-1]
	j.free = j.free[:len(j.free)-1]
	s := j.at(at)
	s.write(o)
	p := &place{j: j, p: s, at: at, id: s.hash()}
	s.halves = [2]half{}
	p.Set(quota.Counts{})
	atomic.StoreUint64(&s.id, p.id)
	return p
}

func (j *Journal) at(i int) *slot { return &j.steps[i/stepSlots][i%stepSlots] }

// release frees a slot.
func (j *Journal) release(at int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed.Load() {
		return
	}
	atomic.StoreUint64(&j.at(at).id, 0)
	j.free = append(j.free, at)
}

// Settled implements aggregator.Journal. It ignores unknown counts: they are already settled.
func (j *Journal) Settled(k quota.Key, incarnation quota.Incarnation, epoch quota.Seq) {
	o := quota.Opening{Key: k, Incarnation: incarnation, Epoch: epoch}
	j.mu.Lock()
	at, ok := j.earlier[o]
	if ok {
		delete(j.earlier, o)
		if j.incarnations[o.Incarnation]--; j.incarnations[o.Incarnation] == 0 {
			delete(j.incarnations, o.Incarnation)
		}
	}
	j.mu.Unlock()
	if ok {
		j.release(at)
	}
}

// Stats describes the use of a journal.
type Stats struct {
	Slots        int   // allocated
	Used         int   // allocated slots in use
	Earlier      int   // used slots of earlier processes that no leader has settled yet
	Incarnations int   // number of those processes
	TooLong      int64 // keys not journalled because they are too long
	NoRoom       int64 // keys not journalled because no slot was free
	Full         bool  // the file cannot grow: the disk is full, or another error
}

// Stats returns the current use of the journal.
func (j *Journal) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := len(j.steps) * stepSlots
	return Stats{
		Slots: n, Used: n - len(j.free), Earlier: len(j.earlier), Incarnations: len(j.incarnations),
		TooLong: j.tooLong.Load(), NoRoom: j.noRoom.Load(), Full: j.full,
	}
}

// Close stops all writes and syncs the file, which keeps the counts that no leader has committed.
// Slots remain usable afterwards, to no effect.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed.Swap(true) {
		j.mu.Unlock()
		return nil
	}
	close(j.toGrow)
	j.mu.Unlock()
	<-j.grown
	return errors.Join(j.markClosed(), j.file.Close())
}
