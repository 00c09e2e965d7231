package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Result is how a call ended.
type Result string

// The results.
const (
	OK     Result = "ok"
	Denied Result = "denied" // the caller may not, or is not who they say
	Failed Result = "failed"
)

// Entry is one line.
type Entry struct {
	Time       time.Time `json:"time"`
	Node       string    `json:"node"`
	RequestID  string    `json:"request_id"`
	Identity   string    `json:"identity"`
	Credential string    `json:"credential"`       // what proved the identity
	Serial     string    `json:"serial,omitempty"` // which one: the id of a token
	Address    string    `json:"address"`
	Method     string    `json:"method"`
	What       string    `json:"what,omitempty"` // the request, in short
	Result     Result    `json:"result"`
	Code       string    `json:"code,omitempty"` // of a failure
	Detail     string    `json:"detail,omitempty"`
	Answer     string    `json:"answer,omitempty"` // in short
	Unwritten  uint64    `json:"unwritten,omitempty"`
}

// Bounds of what is written.
const (
	maxText     = 2 << 10 // bytes of one text of an entry
	deniedRate  = 10      // denied attempts a second
	deniedBurst = 100
)

// Options say where a log is, and how much is kept.
type Options struct {
	Path     string
	MaxBytes int64            // of a file; 0: 64 MiB
	Keep     int              // files besides the current one; 0: 3
	Now      func() time.Time // nil: the machine's clock
	Logger   *slog.Logger     // told when writing fails and when it works again; nil discards it
}

// Log is an audit log. Its methods are safe for concurrent use. A nil Log writes
// nothing.
type Log struct {
	o Options

	mu      sync.Mutex
	file    *os.File
	size    int64
	failing bool
	lost    uint64

	tokens  float64 // for denied attempts
	at      time.Time
	skipped uint64
}

// Open opens a log for appending, or makes it, readable by its owner alone.
func Open(o Options) (*Log, error) {
	if o.MaxBytes == 0 {
		o.MaxBytes = 64 << 20
	}
	if o.Keep == 0 {
		o.Keep = 3
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(filepath.Dir(o.Path), 0o700); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	l := &Log{o: o, tokens: deniedBurst, at: o.Now()}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	return l, nil
}

func (l *Log) open() error {
	f, err := os.OpenFile(l.o.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write writes an entry, whose time it sets. It does not fail: see the package.
func (l *Log) Write(e Entry) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Time = l.o.Now().UTC()
	if e.Result == Denied && !l.mayWriteDenied(e.Time) {
		l.skipped++
		return
	}
	e.Unwritten, l.skipped = l.skipped, 0
	for _, text := range []*string{&e.RequestID, &e.Identity, &e.Address, &e.Method, &e.What, &e.Detail, &e.Answer} {
		*text = clip(*text)
	}
	line, err := json.Marshal(e)
	if err == nil {
		err = l.append(append(line, '\n'))
	}
	l.note(err)
}

func (l *Log) mayWriteDenied(now time.Time) bool {
	l.tokens = min(deniedBurst, l.tokens+now.Sub(l.at).Seconds()*deniedRate)
	l.at = now
	if l.tokens < 1 {
		return false
	}
	l.tokens--
	return true
}

func clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	return s[:maxText] + "..."
}

// append writes a line, in a new file if the current one is full. Of a line that
// did not fit on the disk nothing is left.
func (l *Log) append(line []byte) error {
	if l.file == nil {
		if err := l.open(); err != nil {
			return err
		}
	}
	if l.size > 0 && l.size+int64(len(line)) > l.o.MaxBytes {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	n, err := l.file.Write(line)
	if err != nil && n > 0 {
		if l.file.Truncate(l.size) == nil {
			n = 0
		}
	}
	l.size += int64(n)
	return err
}

// rotate renames audit.log to audit.log.1, that to .2, and drops the last.
func (l *Log) rotate() error {
	name := func(i int) string { return fmt.Sprintf("%s.%d", l.o.Path, i) }
	for i := l.o.Keep - 1; i >= 1; i-- {
		if err := os.Rename(name(i), name(i+1)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(l.o.Path, name(1)); err != nil {
		return err
	}
	old := l.file
	l.file = nil
	return errors.Join(old.Close(), l.open())
}

// note says once that writing fails, and once that it works again.
func (l *Log) note(err error) {
	switch {
	case err != nil:
		l.lost++
		if !l.failing {
			l.failing = true
			l.o.Logger.Error("the audit log cannot be written; changes go on without it", "path", l.o.Path, "err", err)
		}
	case l.failing:
		l.failing = false
		l.o.Logger.Info("the audit log is written again", "path", l.o.Path, "lost", l.lost)
	}
}

// Lost returns how many entries could not be written.
func (l *Log) Lost() uint64 {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// Close closes the file.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	f := l.file
	l.file = nil
	return f.Close()
}
