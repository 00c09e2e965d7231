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
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorate/quorate/api/auth"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/audit"
	"github.com/quorate/quorate/internal/audit/words"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/cli/server"
	"github.com/quorate/quorate/internal/jsontext"
	"github.com/quorate/quorate/internal/phrase"
)

// auditFlags holds the flags of "audit".
type auditFlags struct {
	remote.Targets
	output render.Output
	data   string
	follow bool
	tail   int
	since  string
	req    quoratev1.ListAuditEntriesRequest
}

// NewAuditCommand returns "quorate audit".
func NewAuditCommand() *cobra.Command {
	var a auditFlags
	var f *pflag.FlagSet
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Print the audit log: who changed what, and who was denied",
		Long: `Print the newest entries of the audit logs of all nodes, merged by time, the
oldest first, as sentences. Each node keeps its own log; a message names the
nodes that did not answer.

With --data it reads the whole log of one node from its data directory on this
machine, whether or not the node runs. -o json prints one entry per line, in the
log's own form, with the method and the whole request, and -o csv one row per
entry.`,
		Example: `  quorate audit
  quorate audit --result denied --since 24h
  quorate audit --since 2026-11-22T12:00:00Z --tail -1
  quorate audit --identity client:ci --tail -1 -o json
  quorate audit --data data/n1 --follow`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p := &auditPrinter{out: a.output.Printer(cmd), table: auditTable(), csv: a.output.Format == render.FormatCSV, messages: cmd.ErrOrStderr()}
			for _, other := range []string{"node", "identity", "method", "result", "text", "since", "tail", "addr"} {
				if a.data != "" && f.Changed(other) {
					return exit.Usagef("--%s: asks the cluster; leave out --data, which reads one node's files", other)
				}
			}
			if a.data != "" {
				return p.run(cmd.Context(), filepath.Join(a.data, server.AuditFile), a.follow)
			}
			if a.tail < -1 {
				return exit.Usagef("--tail %d: must be -1 (all) or more", a.tail)
			}
			var err error
			if a.req.Since, err = render.Moment("since", a.since, time.Now()); err != nil {
				return err
			}
			return a.cluster(cmd.Context(), p)
		},
	}
	a.AddFlags(cmd)
	f = cmd.Flags()
	f.StringVar(&a.data, "data", "", "read the log in this data `directory` of a node, and ask no node")
	f.BoolVarP(&a.follow, "follow", "f", false, "continue with new entries, until Ctrl-C")
	f.IntVar(&a.tail, "tail", 100, "newest entries to print; -1 for all")
	f.StringVar(&a.since, "since", "", "only entries since then: a time such as 2026-11-22T12:00:00Z, or how long ago, such as 24h, 7d")
	f.StringVar(&a.req.Node, "node", "", "only the log of this `node`, such as n2")
	f.StringVar(&a.req.Identity, "identity", "", "only callers with this text in their identity")
	f.StringSliceVar(&a.req.Methods, "method", nil, "only calls with one of these texts in their method, such as ApplyLimits")
	f.StringVar(&a.req.Result, "result", "", "only calls with this result: ok, denied or failed")
	f.StringVar(&a.req.Text, "text", "", "only entries with this text in their request, answer, error, request id or address")
	render.CompleteWords(cmd, "result", "ok", "denied", "failed")
	a.output.AddFlags(cmd, "text", "json", "csv")
	return cmd
}

// auditTable returns the table of -o csv.
func auditTable() *render.Table {
	return render.NewTable("TIME", "NODE", "IDENTITY", "CREDENTIAL", "SERIAL", "ADDRESS", "METHOD", "WHAT", "RESULT", "CODE", "DETAIL", "ANSWER", "REQUEST ID", "UNWRITTEN")
}

// Bounds of reading the logs of all nodes.
const (
	auditPage     = 500
	auditEvery    = time.Second // interval at which --follow asks
	auditLate     = time.Minute // how late an entry may be by its node's clock, with --follow
	maxAuditLines = 1_000_000
)

// cluster prints the entries of all nodes.
func (a *auditFlags) cluster(ctx context.Context, p *auditPrinter) error {
	defer a.ReuseConns()()
	entries, err := a.newest(ctx, p, a.tail)
	if err != nil {
		return err
	}
	seen := map[string]time.Time{}
	for {
		newest := time.Time{}
		for _, e := range slices.Backward(entries) {
			at := e.Time.AsTime()
			if newest.Before(at) {
				newest = at
			}
			id := e.Node + " " + at.String() + " " + e.RequestId + " " + e.Method
			if _, known := seen[id]; known {
				continue
			}
			if seen[id] = at; a.tail == 0 {
				continue
			}
			if err := p.entry(e); err != nil {
				return err
			}
		}
		if !a.follow {
			if len(entries) == 0 {
				fmt.Fprintln(p.messages, "quorate: no entries")
			}
			return nil
		}
		a.tail = -1
		if !newest.IsZero() {
			a.req.Since = timestamppb.New(newest.Add(-auditLate))
			maps.DeleteFunc(seen, func(_ string, at time.Time) bool { return at.Before(a.req.Since.AsTime()) })
		}
		if backoff.Sleep(ctx, auditEvery) != nil {
			return nil
		}
		if entries, err = a.newest(ctx, p, -1); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// newest returns up to most entries, newest first; all for -1.
func (a *auditFlags) newest(ctx context.Context, p *auditPrinter, most int) (out []*quoratev1.AuditEntry, err error) {
	if most < 0 {
		most = maxAuditLines
	}
	for token := ""; ; {
		req := proto.CloneOf(&a.req)
		req.PageToken, req.PageSize = token, int32(min(max(most-len(out), 1), auditPage))
		res, err := remote.Invoke(ctx, &a.Targets, quoratev1.NewSecurityServiceClient, quoratev1.SecurityServiceClient.ListAuditEntries, req)
		if err != nil {
			return nil, err
		}
		p.missing(res.MissingNodes)
		out = append(out, res.Entries...)
		if token = res.NextPageToken; token == "" || len(out) >= most {
			return out, nil
		}
	}
}

// missing says when the nodes change whose entries are missing.
func (p *auditPrinter) missing(nodes []*quoratev1.MissingNode) {
	var names, text []string
	for _, n := range nodes {
		names = append(names, n.Node)
		text = append(text, phrase.Show(n.Node)+": "+phrase.Printable(n.Reason))
	}
	if slices.Equal(names, p.lacks) {
		return
	}
	if p.lacks = names; len(names) == 0 {
		fmt.Fprintln(p.messages, "quorate: complete: all nodes answer")
		return
	}
	fmt.Fprintf(p.messages, "quorate: incomplete: %s\n", strings.Join(text, "; "))
}

// entry prints an entry as the log has it.
func (p *auditPrinter) entry(e *quoratev1.AuditEntry) error {
	line, err := json.Marshal(audit.Entry{
		Time: e.Time.AsTime(), Node: e.Node, RequestID: e.RequestId, Identity: e.Identity, Credential: e.Credential, Serial: e.Serial, Address: e.Address,
		Method: e.Method, What: e.What, Result: audit.Result(e.Result), Code: e.Code, Detail: e.Detail, Answer: e.Answer, Unwritten: e.Unwritten,
	})
	if err != nil {
		return err
	}
	return p.line(line)
}

// auditPoll is the interval at which --follow polls a log.
const auditPoll = 200 * time.Millisecond

// auditPrinter prints the lines of audit logs.
type auditPrinter struct {
	out      render.Printer
	table    *render.Table // of -o csv
	csv      bool
	messages io.Writer
	lacks    []string // nodes that did not answer last
}

// run prints the two file chains of an audit log, merged by entry time.
func (p *auditPrinter) run(ctx context.Context, path string, follow bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first, err := os.Open(path)
	if err != nil {
		return exit.Invalid(fmt.Errorf("--data: no audit log: %w", err))
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
	return backoff.Sleep(ctx, auditPoll)
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

// auditLine returns an entry as a line for people.
func auditLine(e *audit.Entry) string {
	text := fmt.Sprintf("%s %s %s %s", e.Time.UTC().Format("2006-01-02T15:04:05.000Z"), e.Node, phrase.Show(auth.Shown(e.Identity)), phrase.Printable(words.Sentence(e.Method, e.What, e.Result == audit.OK)))
	if rest := words.Rest(e.Method, e.What); rest != "" {
		text += " (" + phrase.Printable(rest) + ")"
	}
	if e.Result == audit.OK {
		return text
	}
	if text += ": " + string(e.Result); e.Detail != "" {
		text += ": " + phrase.Printable(e.Detail)
	}
	return text
}

func (p *auditPrinter) line(line []byte) error {
	raw := jsontext.Escape(bytes.TrimSuffix(line, []byte("\n")))
	var e audit.Entry
	bad := json.Unmarshal(line, &e) != nil
	if bad && p.csv { // which has no row for it
		fmt.Fprintf(p.messages, "quorate: not an audit entry: %s\n", raw)
		return nil
	}
	return p.out.Print(json.RawMessage(raw), func(page *render.Page) {
		if bad {
			fmt.Fprintf(page, "%s\n", raw)
			return
		}
		page.Record(p.table, auditLine(&e), e.Time.UTC().Format(time.RFC3339Nano), render.Name(e.Node), render.Name(e.Identity), e.Credential, e.Serial, e.Address,
			e.Method, e.What, string(e.Result), e.Code, e.Detail, e.Answer, render.Name(e.RequestID), e.Unwritten)
	})
}
