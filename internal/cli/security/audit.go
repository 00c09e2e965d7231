package security

import (
	"bufio"
	"bytes"
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
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/cli/server"
	"github.com/quorate/quorate/internal/jsontext"
	"github.com/quorate/quorate/internal/phrase"
)

// NewAuditCommand returns "quorate audit".
func NewAuditCommand() *cobra.Command {
	var output render.Output
	var data string
	var follow bool
	cmd := &cobra.Command{
		Use:   "audit --data DIR",
		Short: "Print a node's audit log: who changed what, and who was denied",
		Long: `Print the audit log of a node on this machine, from its files in the node's data
directory, the oldest first. What was done, and what failed but may have been
done, is in audit.log; what was denied, changed nothing or failed otherwise is
in audit-attempts.log; both are printed. Each node writes what came to it: what
the whole cluster saw is in the logs of all its nodes. -o json prints the lines
as they are.`,
		Example: `  quorate audit --data data/n1
  quorate audit --data data/n1 --follow -o json | jq 'select(.result == "denied")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if data == "" {
				return exit.Usagef("--data: is missing; must be the data directory of a node")
			}
			p := &auditPrinter{out: output.Printer(cmd)}
			return p.run(cmd.Context(), filepath.Join(data, server.AuditFile), follow)
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "data `directory` of the node (required)")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "continue with new entries, until Ctrl-C")
	output.AddFlags(cmd, "text", "json")
	return cmd
}

// auditPoll is the interval at which --follow polls a log.
const auditPoll = 200 * time.Millisecond

// auditPrinter prints the lines of audit logs.
type auditPrinter struct {
	out render.Printer
}

// run prints the two file chains of an audit log, merged by entry time.
func (p *auditPrinter) run(ctx context.Context, path string, follow bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first, err := os.Open(path)
	if err != nil {
		return exit.Invalid(fmt.Errorf("--data: there is no audit log: %w", err))
	}
	_ = first.Close() // only checks that the file exists
	var chains [2]*auditChain
	for i, name := range [2]string{path, audit.AttemptsPath(path)} {
		chains[i] = &auditChain{path: name, follow: follow, lines: make(chan []byte)}
		go chains[i].read(ctx)
	}
	var next [2][]byte // next line of each chain; nil once the chain has reached its end
	var past [2]bool
	for {
		for i, c := range chains {
			for next[i] == nil && !past[i] {
				line, ok := <-c.lines
				if next[i] = line; !ok || line == nil {
					past[i] = true
				}
			}
		}
		i := 0
		switch {
		case next[0] == nil && next[1] == nil:
			return p.follow(chains)
		case next[0] == nil || next[1] != nil && auditTime(next[1]).Before(auditTime(next[0])):
			i = 1
		}
		if err := p.line(next[i]); err != nil {
			return err
		}
		next[i] = nil
	}
}

// follow prints new lines as they appear.
func (p *auditPrinter) follow(chains [2]*auditChain) error {
	done, attempts := chains[0].lines, chains[1].lines
	for done != nil || attempts != nil {
		from := &done
		var line []byte
		var ok bool
		select {
		case line, ok = <-done:
		case line, ok = <-attempts:
			from = &attempts
		}
		if !ok {
			*from = nil
			continue
		}
		if err := p.line(line); err != nil {
			return err
		}
	}
	return errors.Join(chains[0].err, chains[1].err)
}

func auditTime(line []byte) time.Time {
	var e struct{ Time time.Time }
	_ = json.Unmarshal(line, &e) // an invalid line has the zero time and sorts first
	return e.Time
}

// auditChain reads a log file and its rotated predecessors, oldest first.
type auditChain struct {
	path   string
	follow bool
	lines  chan []byte // one nil line separates existing lines from new ones
	err    error       // set before lines is closed; nil at a normal end
	part   []byte      // an incomplete last line
	newer  bool        // the nil line has been sent
}

func (c *auditChain) read(ctx context.Context) {
	defer close(c.lines)
	for i := 99; i >= 1; i-- {
		f, err := os.Open(fmt.Sprintf("%s.%d", c.path, i))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = errors.Join(c.rest(ctx, bufio.NewReader(f)), f.Close())
		}
		if err != nil {
			c.err = err
			return
		}
	}
	for {
		f, err := os.Open(c.path)
		if errors.Is(err, fs.ErrNotExist) && !c.follow {
			return
		}
		if err == nil {
			err = errors.Join(c.tail(ctx, bufio.NewReader(f), f), f.Close())
		} else if errors.Is(err, fs.ErrNotExist) { // the first entry creates the file
			err = c.pause(ctx)
		}
		if err != nil || !c.follow || ctx.Err() != nil {
			if c.err = err; ctx.Err() != nil {
				c.err = nil
			}
			return
		}
	}
}

// tail reads a file to its end. With follow it continues until rotation replaces the file.
func (c *auditChain) tail(ctx context.Context, r *bufio.Reader, f *os.File) error {
	for {
		now, err := os.Stat(c.path)
		if failed := c.rest(ctx, r); failed != nil || !c.follow {
			return failed
		}
		if own, ownErr := f.Stat(); err == nil && ownErr == nil && !os.SameFile(now, own) {
			return c.rest(ctx, r)
		}
		if err := c.pause(ctx); err != nil {
			return err
		}
	}
}

// pause sleeps for auditPoll. The first call sends the nil line before it sleeps.
func (c *auditChain) pause(ctx context.Context) error {
	if !c.newer {
		c.newer = true
		if err := c.send(ctx, nil); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(auditPoll):
		return nil
	}
}

func (c *auditChain) send(ctx context.Context, line []byte) error {
	select {
	case c.lines <- line:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// rest sends all complete lines up to the end of the file.
func (c *auditChain) rest(ctx context.Context, r *bufio.Reader) error {
	for {
		line, err := r.ReadBytes('\n')
		c.part = append(c.part, line...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = c.send(ctx, c.part)
		}
		if err != nil {
			return err
		}
		c.part = nil
	}
}

func (p *auditPrinter) line(line []byte) error {
	raw := bytes.TrimSuffix(line, []byte("\n"))
	return p.out.Print(json.RawMessage(jsontext.Escape(raw)), func(p *render.Page) {
		var e audit.Entry
		if json.Unmarshal(line, &e) != nil {
			fmt.Fprintf(p, "%s\n", jsontext.Escape(raw))
			return
		}
		how := string(e.Result)
		if e.Detail != "" {
			how += ": " + phrase.Printable(e.Detail)
		}
		fmt.Fprintf(p, "%s %s %s %s %s %s\n", e.Time.UTC().Format("2006-01-02T15:04:05.000Z"), e.Node, phrase.Show(e.Identity), phrase.Show(e.Method), phrase.Printable(e.What), how)
	})
}
