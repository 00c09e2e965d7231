package limits

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/quota"
)

func newOverridesApplyCommand() *cobra.Command {
	var t remote.Targets
	var c render.Change
	var output render.Output
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Set all overrides of a file",
		Long: `Set all overrides of a file ("-": standard input); those of other keys stay. The
whole file is read and checked first. Then it is sent in batches of 1000, each
of which is set as a whole; when one fails, those before it are set, and the
command can be repeated. Progress is on standard error.

A file of more than 4 MiB has to write its overrides as a block: each begins on
a line of its own with "- ", and nothing follows the last.`,
		Example: `  quorate overrides apply overrides.yaml
  quorate overrides get api --max 0 -o yaml | quorate overrides apply -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, closeFile, err := openInput(args[0], cmd.InOrStdin())
			if err != nil {
				return exit.Invalid(err)
			}
			defer closeFile()
			a := &overrideApply{source: args[0], now: quota.Time(time.Now().UnixNano()), output: &output, messages: cmd.ErrOrStderr(), author: c.Who()}
			return a.run(cmd, &t, f)
		},
	}
	t.AddFlags(cmd)
	cmd.Flags().StringVar(&c.Author, "author", "", "author, for the history (default: $QUORATE_USER, or the login name)")
	output.AddFlags(cmd, "text", "json")
	return cmd
}

// overrideApply reads a file twice: to check it, and to send it.
type overrideApply struct {
	source, author string
	output         *render.Output
	now            quota.Time
	messages       io.Writer
	total, sent    int
	shown          time.Time
}

func (a *overrideApply) run(cmd *cobra.Command, t *remote.Targets, f *os.File) error {
	seen, seed := map[uint64]struct{}{}, maphash.MakeSeed()
	err := a.read(f, func(list []quota.Override) error {
		a.total += len(list)
		for i := range list {
			h := maphash.Comparable(seed, list[i].Key)
			if _, twice := seen[h]; twice {
				return fmt.Errorf("%s: duplicate %v; remove one", a.source, list[i].Key)
			}
			seen[h] = struct{}{}
		}
		return nil
	})
	if err != nil {
		return exit.Invalid(err)
	}
	if a.total > quota.MaxOverrides {
		return exit.Invalid(fmt.Errorf("%s: has %d overrides; at most %d", a.source, a.total, quota.MaxOverrides))
	}
	defer t.ReuseConns()()
	a.shown = time.Now()
	err = a.read(f, func(list []quota.Override) error { return a.send(cmd.Context(), t, list) })
	if err != nil {
		if a.sent > 0 {
			err = fmt.Errorf("%w\n%d of %d overrides were set before the error; you can repeat the command", err, a.sent, a.total)
		}
		return err
	}
	return a.output.Printf(cmd, &quoratev1.SetOverridesResponse{Set: int32(a.total)}, "%s set", phrase.Plural(a.total, "override"))
}

func (a *overrideApply) send(ctx context.Context, t *remote.Targets, list []quota.Override) error {
	for len(list) > 0 {
		n := min(len(list), apiproto.MaxList)
		batch := make([]*quoratev1.Override, n)
		for i := range batch {
			batch[i] = overrideProto(&list[i], a.author)
		}
		if err := setOverrides(ctx, t, batch); err != nil {
			return err
		}
		a.sent += n
		list = list[n:]
		if time.Since(a.shown) >= time.Second {
			a.shown = time.Now()
			fmt.Fprintf(a.messages, "quorate: %d of %d overrides set\n", a.sent, a.total)
		}
	}
	return nil
}

// read parses the file from its start: at once if it is small enough, otherwise in parts of up to
// 1000 overrides.
func (a *overrideApply) read(f *os.File, use func([]quota.Override) error) error {
	st, err := f.Stat()
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	if st.Mode().IsRegular() && st.Size() > config.MaxFileBytes {
		return a.parts(f, use)
	}
	data, err := io.ReadAll(io.LimitReader(f, config.MaxFileBytes+1))
	if err != nil {
		return err
	}
	list, err := config.ParseOverrides(a.source, data, a.now)
	if err != nil {
		return err
	}
	return use(list)
}

// part holds some overrides of a file, with the lines before the first override.
type part struct {
	head, items bytes.Buffer
	begin       int // line of the first item
	count       int
	before      int // number of items in earlier parts
}

// parts splits a file at the lines that begin an override.
func (a *overrideApply) parts(f io.Reader, use func([]quota.Override) error) error {
	in := bufio.NewReader(f)
	var p part
	indent := -1
	for line := 1; ; line++ {
		text, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(text) > config.MaxFileBytes/4 {
			return fmt.Errorf("%s:%d: is longer than %d bytes; begin each override on a line of its own", a.source, line, config.MaxFileBytes/4)
		}
		in := len(text) - len(bytes.TrimLeft(text, " "))
		item := bytes.HasPrefix(text[in:], []byte("- ")) && (indent < 0 || in == indent)
		blank := len(bytes.TrimSpace(text)) == 0 || text[in] == '#'
		switch {
		case item && indent < 0:
			indent, p.begin = in, line
		case item && (p.count == apiproto.MaxList || p.items.Len() > config.MaxFileBytes/2):
			if err := a.parse(&p, use); err != nil {
				return err
			}
			p.begin = line
		case indent >= 0 && !item && !blank && in <= indent:
			return fmt.Errorf("%s:%d: unexpected text after the list of overrides; in a file of this size the list must come last", a.source, line)
		}
		switch {
		case indent < 0:
			p.head.Write(text)
		default:
			p.items.Write(text)
		}
		if item {
			p.count++
		}
		if err != nil {
			return a.parse(&p, use)
		}
	}
}

// renumber adds the items of earlier parts to the indexes in an error.
func renumber(err error, before int) {
	faults, ok := errors.AsType[*config.FileError](err)
	if !ok {
		return
	}
	for i := range faults.Faults {
		var n int
		path := &faults.Faults[i].Path
		if _, err := fmt.Sscanf(*path, "overrides[%d]", &n); err == nil {
			_, rest, _ := strings.Cut(*path, "]")
			*path = fmt.Sprintf("overrides[%d]%s", before+n, rest)
		}
	}
}

// parse parses one part. On a fault it parses the part again after as many empty lines as the file
// has before it, so that the fault has the right line.
func (a *overrideApply) parse(p *part, use func([]quota.Override) error) error {
	text := append(bytes.Clone(p.head.Bytes()), p.items.Bytes()...)
	list, err := config.ParseOverrides(a.source, text, a.now)
	if err != nil {
		skipped := max(p.begin-1-bytes.Count(p.head.Bytes(), []byte("\n")), 0)
		if len(text)+skipped < config.MaxFileBytes {
			padded := append(bytes.Clone(p.head.Bytes()), bytes.Repeat([]byte("\n"), skipped)...)
			_, err = config.ParseOverrides(a.source, append(padded, p.items.Bytes()...), a.now)
			renumber(err, p.before)
		} else {
			err = fmt.Errorf("%s: in the part that begins in line %d: %w", a.source, p.begin, err)
		}
		return err
	}
	p.items.Reset()
	p.before += p.count
	p.count = 0
	return use(list)
}
