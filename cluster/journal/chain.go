package journal

import (
	"hash/fnv"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// Forever is what [Journal.Known] says of a node whose journal was never broken.
const Forever = 10 * 365 * 24 * time.Hour

// Known is for how long before this process everything that earlier ones counted
// on durable keys is in the journal, or was committed. It is 0 where something may be
// missing that the last process counted: there is no file of it, or a damaged one;
// it had no slot for a key; or the machine was started anew, and the process before
// had not closed the journal, so that not all of it may have reached the disk.
func (j *Journal) Known() time.Duration {
	if j.head.broken == 0 {
		return Forever
	}
	return max(0, time.Since(time.Unix(0, j.head.broken)))
}

// begin makes the file that of this process, and syncs that it is not closed.
func (j *Journal) begin(anew bool) error {
	h, boot := j.head, bootID()
	whole := !anew && h.life == uint64(j.cfg.Prior) && h.missed == 0 && (h.clean == 1 || h.boot != 0 && h.boot == boot)
	if !whole && j.cfg.Prior != 0 {
		h.broken = time.Now().UnixNano()
	}
	h.life, h.boot, h.clean, h.missed = uint64(j.cfg.Life), boot, 0, 0
	return j.file.Sync()
}

// miss counts a key that has no slot.
func (j *Journal) miss(why *atomic.Int64) {
	why.Add(1)
	atomic.StoreUint64(&j.head.missed, 1)
}

// end says that all is on the disk.
func (j *Journal) end() error {
	if err := j.file.Sync(); err != nil {
		return err
	}
	atomic.StoreUint64(&j.head.clean, 1)
	return j.file.Sync()
}

// bootID tells one start of the machine from the next; 0 where that is not known.
func bootID() uint64 {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(strings.TrimSpace(string(text))) == 0 {
		return 0
	}
	f := fnv.New64a()
	_, _ = f.Write(text) // a hash takes everything
	return f.Sum64()
}
