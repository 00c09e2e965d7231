package suite

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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
	r := &Results{
		Time: time.Now().UTC().Truncate(time.Second), Go: runtime.Version(), CPU: model(), CPUs: runtime.NumCPU(),
		Quick: quick, Tables: tables,
	}
	commit := Commit()
	for i := range r.Tables {
		r.Tables[i].Commit, r.Tables[i].Machine = commit, r.machine()
	}
	return r
}

// machine describes the machine and the mode of the run.
func (r *Results) machine() string {
	mode := "full"
	if r.Quick {
		mode = "quick"
	}
	return fmt.Sprintf("%d CPUs (%s), %s, %s mode", r.CPUs, r.CPU, r.Go, mode)
}

// Commit returns the commit of the checkout, with a "+" if files differ from it, or "".
func Commit() string {
	out, err := exec.CommandContext(context.Background(), "git", "describe", "--always", "--abbrev=8", "--exclude", "*", "--dirty=+").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// Machine describes the machine.
func Machine() string {
	return fmt.Sprintf("%d CPUs (%s), %s", runtime.NumCPU(), model(), runtime.Version())
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
	fmt.Fprintf(w, "The last run was on %s, with %s; each table says when it was measured.\n\n", r.Time.Format(time.RFC3339), r.machine())
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
	fmt.Fprint(&md, "<!-- Written by \"make bench-peers\". Do not edit. -->\n\n# Quorate compared with its peers\n\n")
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
		t.Machine = cmp.Or(t.Machine, old.machine())
		r.Tables = append(r.Tables, t)
	}
	r.Tables = append(r.Tables, fresh...)
	return nil
}
