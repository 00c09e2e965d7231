package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/jsontext"
	"github.com/quorate/quorate/internal/phrase"
)

// Result is the outcome of a call.
type Result string

// The results.
const (
	OK     Result = "ok"
	Denied Result = "denied" // not permitted, or not authenticated
	Failed Result = "failed"
)

// Entry is one line of the log.
type Entry struct {
	Time       time.Time `json:"time"`
	Node       string    `json:"node"`
	RequestID  string    `json:"request_id"`
	Identity   string    `json:"identity"`
	Credential string    `json:"credential"`       // kind of credential that proved the identity
	Serial     string    `json:"serial,omitempty"` // which credential: the ID of a token
	Address    string    `json:"address"`
	Method     string    `json:"method"`
	What       string    `json:"what,omitempty"` // summary of the request
	Result     Result    `json:"result"`
	Code       string    `json:"code,omitempty"` // error code of a failure
	Detail     string    `json:"detail,omitempty"`
	Answer     string    `json:"answer,omitempty"` // summary
	Unwritten  uint64    `json:"unwritten,omitempty"`
	// Attempt marks a call that changes nothing, such as signing in. Denied and failed calls also
	// count as attempts, except those with MayBeDone.
	Attempt bool `json:"-"`
	// MayBeDone marks a failed call that may have changed something. It is written with the
	// changes.
	MayBeDone bool `json:"-"`
}

func (e *Entry) attempt() bool { return e.Attempt || e.Result != OK && !e.MayBeDone }

// Bounds of an entry.
const (
	maxText      = 2 << 10 // bytes per text of an entry
	maxRequestID = 128     // bytes; callers choose request IDs
)

// AttemptsPath returns the path of the attempts file for the log at path.
func AttemptsPath(path string) string {
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "-attempts" + ext
}

// Options configures a log.
type Options struct {
	Path     string
	MaxBytes int64            // per file; 0 means 64 MiB
	Keep     int              // rotated files to keep, per chain; 0 means 3
	Now      func() time.Time // nil means time.Now
	Logger   *slog.Logger     // told when writing fails and when it works again; nil discards that
}

// Log is an audit log. It is safe for concurrent use. A nil Log writes nothing.
type Log struct {
	o Options

	mu       sync.Mutex
	done     chain
	attempts chain
	failing  bool
	lost     uint64

	bounds  attemptBounds
	skipped uint64
}

// chain is a log file and its rotated predecessors.
type chain struct {
	path   string
	o      *Options
	file   *os.File // nil if not open
	size   int64
	rename func(from, to string) error // os.Rename, except in tests
}

// Open opens a log for appending, and creates it if necessary, readable by its owner only.
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
	l := &Log{o: o}
	l.done, l.attempts = chain{path: o.Path, o: &l.o, rename: os.Rename}, chain{path: AttemptsPath(o.Path), o: &l.o, rename: os.Rename}
	l.bounds.init()
	if err := errors.Join(l.done.open(), l.attempts.open()); err != nil {
		return nil, fmt.Errorf("audit log: %w", errors.Join(err, l.Close()))
	}
	return l, nil
}

func (l *chain) open() error {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
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

// Write sets the time of an entry and writes it. It cannot fail: see the package comment.
func (l *Log) Write(e Entry) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Time = l.o.Now().UTC()
	to := &l.done
	if e.attempt() {
		to = &l.attempts
		if !l.bounds.allow(&e) {
			l.skipped++
			return
		}
	}
	e.Unwritten = l.skipped
	e.RequestID = phrase.Clip(e.RequestID, maxRequestID)
	for _, text := range []*string{&e.Identity, &e.Address, &e.Method, &e.What, &e.Detail, &e.Answer} {
		*text = phrase.Clip(*text, maxText)
	}
	line, err := json.Marshal(e)
	if err == nil {
		err = to.append(append(jsontext.Escape(line), '\n'))
	}
	if err == nil {
		l.skipped = 0
	}
	l.note(err)
}

// append writes a line, to a new file if the current one is full. It removes a line that was
// written in part.
func (l *chain) append(line []byte) error {
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

// rotate renames audit.log to audit.log.1, that to .2 and so on, and drops the last. It moves no file
// beyond the first gap, which an earlier try has left that failed: further tries drop no more files.
func (l *chain) rotate() error {
	name := func(i int) string { return fmt.Sprintf("%s.%d", l.path, i) }
	last := 1
	for ; last < l.o.Keep; last++ {
		if _, err := os.Lstat(name(last)); errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	for i := last - 1; i >= 1; i-- {
		if err := l.rename(name(i), name(i+1)); err != nil {
			return err
		}
	}
	old := l.file
	l.file = nil
	if err := old.Close(); err != nil { // first: Windows renames no open file
		return err
	}
	if err := l.rename(l.path, name(1)); err != nil {
		return err
	}
	return l.open()
}

// note counts a failed write, and logs once that writing fails and once that it works again.
func (l *Log) note(err error) {
	switch {
	case err != nil:
		l.lost++
		if !l.failing {
			l.failing = true
			l.o.Logger.Error("the audit log cannot be written; changes continue without it", "path", l.o.Path, "err", err)
		}
	case l.failing:
		l.failing = false
		l.o.Logger.Info("the audit log can be written again", "path", l.o.Path, "lost", l.lost)
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

// Close closes the files.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.done.close(), l.attempts.close())
}

func (l *chain) close() error {
	if l.file == nil {
		return nil
	}
	f := l.file
	l.file = nil
	return f.Close()
}
