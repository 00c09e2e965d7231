package suite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Results are the tables of one run.
type Results struct {
	Time   time.Time `json:"time"`
	Go     string    `json:"go"`
	CPU    string    `json:"cpu"`
	CPUs   int       `json:"cpus"`
	Quick  bool      `json:"quick"`
	Tables []Table   `json:"tables"`
}

// NewResults adds the time and the machine to the tables.
func NewResults(tables []Table, quick bool) *Results {
	return &Results{
		Time: time.Now().UTC().Truncate(time.Second), Go: runtime.Version(), CPU: model(), CPUs: runtime.NumCPU(),
		Quick: quick, Tables: tables,
	}
}

// model returns the model name of the machine's processors.
func model() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(data))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

// WriteMarkdown writes the machine, then all tables.
func (r *Results) WriteMarkdown(w io.Writer) {
	mode := "full"
	if r.Quick {
		mode = "quick"
	}
	fmt.Fprintf(w, "%s, %d CPUs (%s), %s, %s mode.\n\n", r.Time.Format(time.RFC3339), r.CPUs, r.CPU, r.Go, mode)
	r.writeTargets(w)
	for i := range r.Tables {
		r.Tables[i].WriteMarkdown(w)
	}
}

// Write writes results.md, results.json and a chart per table into the directory. It keeps existing
// tables of groups that did not run; each table says when it was measured.
func (r *Results) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := r.keep(filepath.Join(dir, "results.json")); err != nil {
		return err
	}
	var md bytes.Buffer
	fmt.Fprint(&md, "<!-- Written by \"make bench-peers\". Do not edit. -->\n\n# Quorate beside its peers\n\n")
	r.WriteMarkdown(&md)
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	errs := []error{
		os.WriteFile(filepath.Join(dir, "results.md"), md.Bytes(), 0o644),
		os.WriteFile(filepath.Join(dir, "results.json"), append(data, '\n'), 0o644),
	}
	for i := range r.Tables {
		t := &r.Tables[i]
		errs = append(errs, os.WriteFile(filepath.Join(dir, t.Name+".svg"), t.Chart(), 0o644))
	}
	return errors.Join(errs...)
}

// keep takes over the tables of a file that are missing in r, at their positions.
func (r *Results) keep(path string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var old Results
	if err := json.Unmarshal(data, &old); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	fresh := r.Tables
	r.Tables = nil
	for _, t := range old.Tables {
		if i := slices.IndexFunc(fresh, func(f Table) bool { return f.Name == t.Name }); i >= 0 {
			t = fresh[i]
			fresh = slices.Delete(fresh, i, i+1)
		}
		if t.Time.IsZero() {
			t.Time = old.Time
		}
		r.Tables = append(r.Tables, t)
	}
	r.Tables = append(r.Tables, fresh...)
	return nil
}
