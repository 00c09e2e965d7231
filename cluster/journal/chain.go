package journal

import (
	"hash/fnv"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// Forever is the result of [Journal.Known] on a node whose journal has always been whole.
const Forever = 10 * 365 * 24 * time.Hour

// Known returns the period up to now, by the wall clock, for which everything that earlier processes
// counted on durable keys is in the journal or was committed. At Open, the period starts again if counts of the last
// process may be missing: because there is no file or a damaged one, because it had no slot for a
// key, or because the machine was rebooted and the process had not closed the journal, so that
// parts may not have reached the disk.
func (j *Journal) Known() time.Duration {
	if j.head.broken == 0 {
		return Forever
	}
	return max(0, time.Since(time.Unix(0, j.head.broken)))
}

// markOpen records this process in the header and syncs that the journal is not closed.
func (j *Journal) markOpen(anew bool) error {
	h, boot := j.head, bootID()
	whole := !anew && h.incarnation == uint64(j.cfg.Prior) && h.missed == 0 && (h.clean == 1 || h.boot != 0 && h.boot == boot)
	if !whole && j.cfg.Prior != 0 {
		h.broken = time.Now().UnixNano()
	}
	h.incarnation, h.boot, h.clean, h.missed = uint64(j.cfg.Incarnation), boot, 0, 0
	return j.file.Sync()
}

// countMissed counts a key without a slot.
func (j *Journal) countMissed(why *atomic.Int64) {
	why.Add(1)
	atomic.StoreUint64(&j.head.missed, 1)
}

// markClosed syncs the file and records that it is closed.
func (j *Journal) markClosed() error {
	if err := j.file.Sync(); err != nil {
		return err
	}
	atomic.StoreUint64(&j.head.clean, 1)
	return j.file.Sync()
}

// bootID identifies the current boot of the machine; 0 means unknown.
func bootID() uint64 {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(strings.TrimSpace(string(text))) == 0 {
		return 0
	}
	f := fnv.New64a()
	_, _ = f.Write(text) // a hash never fails
	return f.Sum64()
}
