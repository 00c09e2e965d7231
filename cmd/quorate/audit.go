package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/audit"
)

func newAuditCommand() *cobra.Command {
	var data, output string
	var follow bool
	cmd := &cobra.Command{
		Use:   "audit --data DIR",
		Short: "Print a node's audit log: who changed what, and who was denied",
		Long: `Print the audit log of a node on this machine, from its files in the node's data
directory, the oldest first. Each node writes what came to it: what the whole
cluster saw is in the logs of all its nodes. -o json prints the lines as they are.`,
		Example: `  quorate audit --data data/n1
  quorate audit --data data/n1 --follow -o json | jq 'select(.result == "denied")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if data == "" {
				return usagef("--data: is missing; must be the data directory of a node")
			}
			p := &auditPrinter{out: cmd.OutOrStdout(), raw: output == "json"}
			return p.run(cmd.Context(), filepath.Join(data, auditFile), follow)
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "data `directory` of the node (required)")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is written from now on, until Ctrl-C")
	outputFlag(cmd, &output, "text", "json")
	return cmd
}

// auditPrinter prints the lines of audit logs.
type auditPrinter struct {
	out  io.Writer
	raw  bool
	part []byte // of a line that is still being written
}

// auditPoll is how often a log that is followed is looked at.
const auditPoll = 200 * time.Millisecond

func (p *auditPrinter) run(ctx context.Context, path string, follow bool) error {
	for i := 99; i >= 1; i-- {
		f, err := os.Open(fmt.Sprintf("%s.%d", path, i))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = errors.Join(p.lines(bufio.NewReader(f)), f.Close())
		}
		if err != nil {
			return err
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return invalid(fmt.Errorf("--data: there is no audit log: %w", err))
	}
	for {
		r := bufio.NewReader(f)
		err := p.tail(ctx, r, f, path, follow)
		if err = errors.Join(err, f.Close()); err != nil || !follow || ctx.Err() != nil {
			return err
		}
		if f, err = os.Open(path); err != nil {
			return err
		}
	}
}

// tail prints a file to its end and, if it is followed, until another one has
// taken its name.
func (p *auditPrinter) tail(ctx context.Context, r *bufio.Reader, f *os.File, path string, follow bool) error {
	for {
		now, err := os.Stat(path)
		if lines := p.lines(r); lines != nil || !follow {
			return lines
		}
		if own, ownErr := f.Stat(); err == nil && ownErr == nil && !os.SameFile(now, own) {
			return p.lines(r)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(auditPoll):
		}
	}
}

// lines prints what is there of whole lines.
func (p *auditPrinter) lines(r *bufio.Reader) error {
	for {
		line, err := r.ReadBytes('\n')
		p.part = append(p.part, line...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := p.line(p.part); err != nil {
			return err
		}
		p.part = p.part[:0]
	}
}

func (p *auditPrinter) line(line []byte) error {
	var e audit.Entry
	if p.raw || json.Unmarshal(line, &e) != nil {
		_, err := p.out.Write(line)
		return err
	}
	how := string(e.Result)
	if e.Detail != "" {
		how += ": " + printable(e.Detail)
	}
	_, err := fmt.Fprintf(p.out, "%s %s %s %s %s %s\n", e.Time.UTC().Format("2006-01-02T15:04:05.000Z"), e.Node, show(e.Identity), show(e.Method), printable(e.What), how)
	return err
}
