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
)

// Resolution is how long a stretch of time a point is about.
type Resolution uint8

// The resolutions: of points, and of the keys of limits.
const (
	Minutes Resolution = iota
	Hours
	KeyMinutes
	KeyHours
)

// Resolutions are all of them.
var Resolutions = []Resolution{Minutes, Hours, KeyMinutes, KeyHours}

// long says whether it is of hours.
func (r Resolution) long() bool { return r == Hours || r == KeyHours }

// Seconds returns how many seconds a point has.
func (r Resolution) Seconds() history.Second {
	if r.long() {
		return 3600
	}
	return 60
}

// layout of the file names that a time is in.
func (r Resolution) layout() string {
	return [...]string{"minutes-20060102.db", "hours-200601.db", "keys-minutes-20060102.db", "keys-hours-200601.db"}[r]
}

func (r Resolution) file(at history.Second) string {
	return time.Unix(int64(at), 0).UTC().Format(r.layout())
}

// Config bounds an archive. Zeros mean the defaults.
type Config struct {
	Minutes  time.Duration // how long minutes are kept; 30 days
	Hours    time.Duration // how long hours are kept; 2 years
	MaxBytes int64         // of all files; 4 GiB. Keys have at most a quarter of it
	// Check returns why a file cannot be trusted, before it is opened; nil opens all.
	Check func(path string) error
	// Damaged is told of a file that was set aside.
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

// Archive is the history on one node's disk.
type Archive struct {
	cfg Config
	dir string

	mu     sync.Mutex
	open   map[string]*bbolt.DB // by file name; nil is no such file
	closed bool
}

// ErrClosed is what an archive says after Close.
var ErrClosed = errors.New("archive is closed")

// Open opens the archive in a directory, which is made if need be. Files are opened when
// they are asked for.
func Open(dir string, cfg Config) (*Archive, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return &Archive{cfg: cfg.withDefaults(), dir: dir, open: map[string]*bbolt.DB{}}, nil
}

// Close closes all files, when those who read and write them are done. Everything that needs one is ErrClosed from then on.
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

// file returns a file, which is made if it is not there and make says so, or nil.
func (a *Archive) file(name string, create bool) (*bbolt.DB, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, ErrClosed
	}
	if db, known := a.open[name]; known && (db != nil || !create) {
		return db, nil
	}
	path := filepath.Join(a.dir, name)
	switch _, err := os.Stat(path); {
	case errors.Is(err, os.ErrNotExist):
		if !create {
			a.open[name] = nil
			return nil, nil
		}
	case err != nil:
		return nil, err
	default:
		if err := a.cfg.Check(path); err != nil {
			a.setAside(path, err)
		}
	}
	db, err := openFile(path)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	a.open[name] = db
	return db, nil
}

// view calls f with a file that is there; one that is not is no error.
func (a *Archive) view(name string, f func(tx *bbolt.Tx) error) error {
	return a.with(name, false, func(db *bbolt.DB) error { return db.View(f) })
}

// with calls use with a file. One that Retain closed after it was looked up is looked up again.
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

// setAside renames a file that cannot be trusted.
func (a *Archive) setAside(path string, why error) {
	to := fmt.Sprintf("%s%s%d", path, damagedMark, time.Now().Unix())
	if err := os.Rename(path, to); err != nil {
		why = errors.Join(why, err)
	}
	a.cfg.Damaged(to, why)
}

// damagedMark is in the names of files that were set aside.
const damagedMark = ".damaged-"

// setAsideNames returns the files with that prefix that were set aside, the oldest first.
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

// openFile opens a bbolt file; what it panics about is an error.
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

// names returns the files of a resolution that are there, the oldest first.
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
