package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/history"
)

// Retain removes files all of which is older than is to be kept, and, as long as
// there are more bytes than MaxBytes, the oldest days; never the one that now is in. It returns what was removed.
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

// shrink removes the oldest days until keys have at most a quarter of MaxBytes, and all files together
// at most MaxBytes.
func (a *Archive) shrink(now history.Second, gone []string) ([]string, error) {
	gone, err := a.shrinkTo(now, KeyMinutes, "keys-", a.cfg.MaxBytes/keysPart, gone)
	if err != nil {
		return gone, err
	}
	return a.shrinkTo(now, Minutes, "", a.cfg.MaxBytes, gone)
}

// keysPart is which part of all bytes keys may have: they are the larger half of what is stored, and
// the sums are worth more.
const keysPart = 4

// shrinkTo removes the oldest days of a resolution until files with that prefix have at most so many bytes.
func (a *Archive) shrinkTo(now history.Second, r Resolution, prefix string, most int64, gone []string) ([]string, error) {
	days, err := a.names(r)
	if err != nil {
		return gone, err
	}
	size, err := a.size(prefix)
	for _, name := range days {
		if err != nil || size <= most || name >= r.file(now) {
			break
		}
		if err = a.remove(name); err == nil {
			gone = append(gone, name)
			size, err = a.size(prefix)
		}
	}
	return gone, err
}

// Size returns how many bytes all files have, damaged ones included.
func (a *Archive) Size() (int64, error) { return a.size("") }

// size is that of the files with that prefix.
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
		if err := db.Close(); err != nil { // waits for who reads it
			return fmt.Errorf("history: %w", err)
		}
	}
	delete(a.open, name)
	if err := os.Remove(filepath.Join(a.dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}
