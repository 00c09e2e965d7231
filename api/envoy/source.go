package envoy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/internal/descriptor"
)

// Bounds of the files, and how often they are read.
const (
	maxFiles    = 1000
	maxFile     = 4 << 20         // bytes; the most that the parser accepts
	maxBytes    = 64 << 20        // of all files
	reloadEvery = 5 * time.Second // a mounted volume may change without a new modification time
)

// Source is a file of rules that are used unchanged, or a directory of such files that end in .yaml
// or .yml. Its methods are safe for concurrent use.
type Source struct {
	path  string
	parse func(source string, data []byte) ([]descriptor.Domain, error)
	rules atomic.Pointer[Rules]
	loads *prometheus.CounterVec

	mu  sync.Mutex
	sum [sha256.Size]byte // of the files last read, valid or not
}

// NewSource reads the rules for the first time. parse parses one file; its error names the lines at
// fault.
func NewSource(path string, reg prometheus.Registerer, parse func(string, []byte) ([]descriptor.Domain, error)) (*Source, error) {
	s := &Source{path: path, parse: parse, loads: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quorate_envoy_rls_config_loads_total",
		Help: "Loads of changed envoyproxy/ratelimit files, by result: ok or refused.",
	}, []string{"result"})}
	reg.MustRegister(s.loads)
	_, err := s.Reload()
	return s, err
}

// Rules returns the current rules.
func (s *Source) Rules() *Rules { return s.rules.Load() }

// Reload reads the rules again if they have changed. After an error the previous rules stay active.
func (s *Source) Reload() (changed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	files, err := readFiles(s.path)
	if err != nil {
		s.sum = [sha256.Size]byte{}
		return false, err
	}
	sum := sumOf(files)
	if sum == s.sum {
		return false, nil
	}
	s.sum = sum
	rules, err := s.read(files)
	if err != nil {
		s.loads.WithLabelValues("refused").Inc()
		return false, err
	}
	s.loads.WithLabelValues("ok").Inc()
	s.rules.Store(rules)
	return true, nil
}

func (s *Source) read(files []file) (*Rules, error) {
	var domains []descriptor.Domain
	var errs []error
	for _, f := range files {
		more, err := s.parse(f.name, f.data)
		domains, errs = append(domains, more...), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return NewRules(domains)
}

// Run reads the rules again whenever they change, and at once when asked, until ctx is done. It
// logs each change, and why it refused one.
func (s *Source) Run(ctx context.Context, asked <-chan os.Signal, log *slog.Logger) {
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	gone := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-asked:
			gone = false
		case <-tick.C:
		}
		changed, err := s.Reload()
		switch {
		case changed:
			log.Info("rules of envoyproxy/ratelimit were read again", "path", s.path)
		case err != nil && !gone:
			log.Error("rules of envoyproxy/ratelimit were refused; the previous ones stay active", "path", s.path, "err", err)
		}
		// A missing file is logged once, and bad content once per change.
		gone = err != nil && errors.As(err, new(*os.PathError))
	}
}

type file struct {
	name string
	data []byte
}

func sumOf(files []file) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%d %s %d ", len(f.name), f.name, len(f.data))
		h.Write(f.data) // a hash does not fail
	}
	h.Sum(sum[:0])
	return sum
}

// readFiles reads a file, or the files of a directory sorted by name.
func readFiles(path string) ([]file, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		f, err := readFile(path)
		return []file{f}, err
	}
	list, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var out []file
	bytes := 0
	for _, e := range list {
		name := e.Name()
		if ext := filepath.Ext(name); ext != ".yaml" && ext != ".yml" || strings.HasPrefix(name, ".") {
			continue
		}
		f, err := readFile(filepath.Join(path, name))
		if err != nil {
			return nil, err
		}
		if bytes += len(f.data); len(out) == maxFiles || bytes > maxBytes {
			return nil, fmt.Errorf("%s: more than %d files, or %d bytes", path, maxFiles, maxBytes)
		}
		out = append(out, f)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: has no .yaml or .yml file", path)
	}
	return out, nil
}

// readFile reads at most one byte more than the parser accepts, so that the parser refuses a larger
// file.
func readFile(path string) (file, error) {
	in, err := os.Open(path)
	if err != nil {
		return file{}, err
	}
	defer func() { _ = in.Close() }() // it was only read
	var b bytes.Buffer
	_, err = io.Copy(&b, io.LimitReader(in, maxFile+1))
	return file{path, b.Bytes()}, err
}
