package main

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/quorate/quorate/bench/suite"
)

// report prints what a run found and, at its end, writes it to a file.
type report struct {
	file string // "" for none
	text bytes.Buffer
}

// openReport begins a report with the date, the commit and the machine.
func openReport(file string) (*report, error) {
	r := &report{file: file}
	if file != "" {
		fmt.Fprintf(&r.text, "<!-- Written by \"make soak\". Do not edit. -->\n\n# Soak\n\n%s, commit %s, %s. Other processes may have used the machine at the same time.\n\n",
			time.Now().UTC().Format(time.DateOnly), suite.Commit(), suite.Machine())
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o644) // before the run, not after it
		if err != nil {
			return nil, err
		}
		return r, f.Close()
	}
	return r, nil
}

func (r *report) println(text string) { r.printf("%s\n", text) }

func (r *report) printf(format string, args ...any) {
	fmt.Printf(format, args...)
	fmt.Fprintf(&r.text, format, args...)
}

// close writes the file, unless the run failed before its end.
func (r *report) close(failed error) error {
	if r.file == "" || failed != nil {
		return nil
	}
	return os.WriteFile(r.file, append(bytes.TrimSpace(r.text.Bytes()), '\n'), 0o644)
}
