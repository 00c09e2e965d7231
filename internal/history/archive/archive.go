package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/syncdir"
)

// Resolution identifies a kind of stored data, points or keys, and the length of time that
// each entry covers.
type Resolution uint8

// Resolutions of points, and of the keys of limits.
const (
	Minutes Resolution = iota
	Hours
	KeyMinutes
	KeyHours
)

// Resolutions lists every Resolution.
var Resolutions = []Resolution{Minutes, Hours, KeyMinutes, KeyHours}

// long reports whether an entry covers an hour instead of a minute.
func (r Resolution) long() bool { return r == Hours || r == KeyHours }

// Seconds returns how many seconds an entry covers: 60 or 3600.
func (r Resolution) Seconds() history.Second {
	if r.long() {
		return 3600
	}
	return 60
}

// layout returns the time layout of the resolution's file names.
func (r Resolution) layout() string {
	return [...]string{"minutes-20060102.db", "hours-200601.db", "keys-minutes-20060102.db", "keys-hours-200601.db"}[r]
}

func (r Resolution) file(at history.Second) string {
	return time.Unix(int64(at), 0).UTC().Format(r.layout())
}

// Config bounds an archive. The zero value of a field means its default.
type Config struct {
	Minutes  time.Duration // retention of minutes; default 30 days
	Hours    time.Duration // retention of hours; default 2 years
	MaxBytes int64         // total size of all files; default 4 GiB. Keys use at most a quarter
	// Check is called before a file is opened. If it returns an error, the archive sets the
	// file aside. A nil Check accepts every file.
	Check func(path string) error
	// Damaged is called with the new path of a file that was set aside, and the reason.
	Damaged func(path string, why error)
}

func (c Config) withDefaults() Config {
	if c.Minutes <= 0 {
		c.Minutes = 30 * 24 * time.Hour
	}
	if c.Hours <= 0 {
		c.Hours = 2 * 365 * 24 * time.Hour
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = 4 << 30
	}
	if c.Check == nil {
		c.Check = func(string) error { return nil }
	}
	if c.Damaged == nil {
		c.Damaged = func(string, error) {}
	}
	return c
}

// Archive is the history on one node's disk. It is safe for concurrent use.
type Archive struct {
	cfg Config
	dir string

	mu     sync.Mutex
	open   map[string]*bbolt.DB // by file name; nil if the file does not exist
	closed bool
}

// ErrClosed is the error of methods that need a file after Close.
var ErrClosed = errors.New("archive is closed")

// Open opens the archive in a directory and creates the directory if it is missing. The
// archive opens each file at its first use.
func Open(dir string, cfg Config) (*Archive, error) {
	if err := syncdir.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return &Archive{cfg: cfg.withDefaults(), dir: dir, open: map[string]*bbolt.DB{}}, nil
}

// Close waits for running reads and writes, and closes all files. Methods that need a file
// return ErrClosed from then on.
func (a *Archive) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	var errs []error
	for _, db := range a.open {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	clear(a.open)
	return errors.Join(errs...)
}

// file returns an open file. If the file does not exist, file creates it if create is set,
// and otherwise returns nil.
func (a *Archive) file(name string, create bool) (*bbolt.DB, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, ErrClosed
	}
	if db, known := a.open[name]; known && (db != nil || !create) {
		return db, nil
	}
	path, fresh := filepath.Join(a.dir, name), false
	switch _, err := os.Stat(path); {
	case errors.Is(err, os.ErrNotExist):
		if !create {
			a.open[name] = nil
			return nil, nil
		}
		fresh = true
	case err != nil:
		return nil, err
	default:
		if err := a.cfg.Check(path); err != nil {
			a.setAside(path, err)
			fresh = true
		}
	}
	db, err := openFile(path)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	if fresh {
		if err := syncdir.Sync(a.dir); err != nil {
			return nil, errors.Join(fmt.Errorf("history: %w", err), db.Close())
		}
	}
	a.open[name] = db
	return db, nil
}

// view calls f in a read transaction of a file. A missing file is no error: view does nothing.
func (a *Archive) view(name string, f func(tx *bbolt.Tx) error) error {
	return a.with(name, false, func(db *bbolt.DB) error { return db.View(f) })
}

// with calls use with a file. It looks the file up again if Retain closed it after the lookup.
func (a *Archive) with(name string, create bool, use func(*bbolt.DB) error) error {
	for {
		db, err := a.file(name, create)
		if err != nil || db == nil {
			return err
		}
		if err = use(db); !errors.Is(err, berrors.ErrDatabaseNotOpen) {
			return err
		}
	}
}

// setAside renames a file that failed Check, and reports it to Damaged.
func (a *Archive) setAside(path string, why error) {
	to := fmt.Sprintf("%s%s%d", path, damagedMark, time.Now().Unix())
	if err := os.Rename(path, to); err != nil {
		why = errors.Join(why, err)
	}
	a.cfg.Damaged(to, why)
}

// damagedMark marks the names of files that were set aside.
const damagedMark = ".damaged-"

// setAsideNames returns the files with that prefix that were set aside, sorted by name, so that
// those of one resolution are in order of age, oldest first.
func (a *Archive) setAsideNames(prefix string) ([]string, error) {
	entries, err := os.ReadDir(a.dir)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && strings.Contains(e.Name(), damagedMark) {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// openFile opens a bbolt file. It turns a panic of bbolt into an error.
func openFile(path string) (db *bbolt.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: damaged: %v", path, p)
		}
	}()
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, Timeout: 2 * time.Second})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return db, nil
}

// names returns the existing files of a resolution, oldest first.
func (a *Archive) names(r Resolution) ([]string, error) {
	entries, err := os.ReadDir(a.dir)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	var out []string
	for _, e := range entries {
		if _, err := time.Parse(r.layout(), e.Name()); err == nil {
			out = append(out, e.Name())
		}
	}
	slices.Sort(out)
	return out, nil
}
