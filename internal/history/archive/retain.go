package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/history"
)

// Retain removes files whose entire content is older than the retention. While the files
// exceed MaxBytes, it also removes the oldest days and months, but never the files that contain
// now. It returns the names of the removed files.
func (a *Archive) Retain(now history.Second) ([]string, error) {
	var gone []string
	for _, r := range Resolutions {
		keep := a.cfg.Minutes
		if r.long() {
			keep = a.cfg.Hours
		}
		names, err := a.names(r)
		if err != nil {
			return gone, err
		}
		oldest := r.file(now - history.Second(keep/time.Second))
		for _, name := range names {
			if name < oldest {
				if err := a.remove(name); err != nil {
					return gone, err
				}
				gone = append(gone, name)
			}
		}
	}
	return a.shrink(now, gone)
}

// shrink removes files until those of keys use at most a quarter of MaxBytes, and all files together
// at most MaxBytes. It removes files that were set aside first, then days of minutes, then months of
// hours.
func (a *Archive) shrink(now history.Second, gone []string) ([]string, error) {
	for _, step := range []struct {
		prefix string
		most   int64
		of     []Resolution
	}{
		{"keys-", a.cfg.MaxBytes / keysPart, []Resolution{KeyMinutes, KeyHours}},
		{"", a.cfg.MaxBytes, []Resolution{Minutes, Hours}},
	} {
		names, err := a.setAsideNames(step.prefix)
		for _, r := range step.of {
			of, failed := a.names(r)
			err = errors.Join(err, failed)
			names = append(names, slices.DeleteFunc(of, func(name string) bool { return name >= r.file(now) })...)
		}
		if err == nil {
			gone, err = a.shrinkTo(names, step.prefix, step.most, gone)
		}
		if err != nil {
			return gone, err
		}
	}
	return gone, nil
}

// keysPart is the divisor of MaxBytes that bounds the files of keys. Keys are the larger half of the
// data, and the sums are worth more.
const keysPart = 4

// shrinkTo removes the named files in order until the files with that prefix have at most most bytes.
func (a *Archive) shrinkTo(names []string, prefix string, most int64, gone []string) ([]string, error) {
	size, err := a.size(prefix)
	for _, name := range names {
		if err != nil || size <= most {
			break
		}
		if err = a.remove(name); err == nil {
			gone = append(gone, name)
			size, err = a.size(prefix)
		}
	}
	return gone, err
}

// Size returns the total size of all files in bytes, including files that were set aside.
func (a *Archive) Size() (int64, error) { return a.size("") }

// size returns the total size in bytes of the files with that prefix.
func (a *Archive) size(prefix string) (int64, error) {
	entries, err := os.ReadDir(a.dir)
	if err != nil {
		return 0, fmt.Errorf("history: %w", err)
	}
	var sum int64
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("history: %w", err)
		}
		sum += info.Size()
	}
	return sum, nil
}

func (a *Archive) remove(name string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if db := a.open[name]; db != nil {
		if err := db.Close(); err != nil { // waits for readers
			return fmt.Errorf("history: %w", err)
		}
	}
	delete(a.open, name)
	if err := os.Remove(filepath.Join(a.dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}
