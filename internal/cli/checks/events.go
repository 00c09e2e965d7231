package checks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/api/apijson"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/limits"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/events"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/pki"
)

// watchRetry is the pause before reconnecting after a lost connection.
const watchRetry = time.Second

// watcher holds the flags of "events" and prints the events of nodes.
type watcher struct {
	remote.Targets
	output render.Output
	kinds  []string
	key    string
	node   string
	span   time.Duration
	buffer int32

	req      *quoratev1.WatchRequest
	messages io.Writer
	missing  []string // nodes that did not answer last

	out   render.Printer
	table *render.Table // of -o csv
	err   error         // of writing
}

// NewEventsCommand returns "quorate events".
func NewEventsCommand() *cobra.Command {
	var e watcher
	var follow bool
	var since string
	_, kinds := apijson.EnumOf(quoratev1.EventKind(0).Descriptor(), "")
	cmd := &cobra.Command{
		Use:   "events [NAMESPACE[/LIMIT]]",
		Short: "Print events as they happen",
		Long: `Print the events of all nodes, or of one with --node, until Ctrl-C or for the
time of --for. The first node that answers asks the others; a message says whose
events are missing if a node does not answer. The command reconnects after a
lost connection. Nodes store no events, so none before the start of the command
are printed: "quorate history" has the counts of the past, "quorate audit" the
changes. Client processes that decide in their own memory send no events of
these decisions.

If the terminal is too slow, events are dropped, and the command prints how
many; requests are never slowed. -o json prints one object per line, and -o csv
one row per event. The kinds are
` + strings.Join(kinds[:3], ", ") + `,
` + strings.Join(kinds[3:], ", ") + `.`,
		Example: `  quorate events -f
  quorate events -f web/per_client --kind refused,too_many_tokens_requested
  quorate events --node n2 --for 10s --key acme -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if follow && e.span > 0 {
				return exit.Usagef("--follow and --for: give one")
			}
			if err := e.request(args); err != nil {
				return err
			}
			if since != "" {
				return e.notStored(since)
			}
			addrs, err := e.Resolve()
			if err != nil {
				return err
			}
			e.out, e.messages, e.table = e.output.Printer(cmd), cmd.ErrOrStderr(), eventTable()
			return e.run(cmd.Context(), addrs)
		},
	}
	e.AddFlags(cmd)
	f := cmd.Flags()
	f.BoolVarP(&follow, "follow", "f", false, "print events until Ctrl-C, as without --for")
	f.StringVar(&since, "since", "", "not supported: nodes store no events")
	f.Lookup("since").Hidden = true // it only says where the past is
	f.DurationVar(&e.span, "for", 0, "end after this time (default: at Ctrl-C)")
	f.StringSliceVar(&e.kinds, "kind", nil, "only these kinds")
	f.StringVar(&e.key, "key", "", "only this key")
	f.StringVar(&e.node, "node", "", "only the events of this `node`, such as n2")
	f.Int32Var(&e.buffer, "buffer", events.DefaultBuffer, fmt.Sprintf("events that a node keeps for a slow reader, 1 to %d", events.MaxBuffer))
	e.output.AddFlags(cmd, "text", "json", "csv")
	return cmd
}

// notStored returns the error for --since. It names the commands that print the past.
func (e *watcher) notStored(since string) error {
	if _, err := render.Moment("since", since, time.Now()); err != nil {
		return err
	}
	what := ""
	if e.req.Namespace != "" {
		what = " " + strings.TrimSuffix(e.req.Namespace+"/"+e.req.Limit, "/")
	}
	return exit.Usagef("--since %s: nodes store no events; \"quorate history%s --from %s\" prints the counts of that time, \"quorate audit --since %s\" its changes", since, what, since, since)
}

// watched says whose events are printed, and which node gathers them.
func (e *watcher) watched(addr string) string {
	if e.node != "" {
		return fmt.Sprintf("watching node %s through %s", phrase.Show(e.node), addr)
	}
	return fmt.Sprintf("watching all nodes through %s", addr)
}

func (e *watcher) request(args []string) (err error) {
	e.req = &quoratev1.WatchRequest{Node: e.node, Key: e.key, Buffer: e.buffer}
	if len(args) > 0 {
		if e.req.Namespace, e.req.Limit, err = limits.ParseScope(args[0]); err != nil {
			return err
		}
	}
	for _, k := range e.kinds {
		n, words := apijson.EnumOf(quoratev1.EventKind(0).Descriptor(), k)
		if n == 0 {
			return exit.Usagef("--kind %q: must be one of %s", k, strings.Join(words, ", "))
		}
		e.req.Kinds = append(e.req.Kinds, quoratev1.EventKind(n))
	}
	if e.span < 0 {
		return exit.Usagef("--for %v: must be more than 0", e.span)
	}
	if e.buffer < 1 || e.buffer > events.MaxBuffer {
		return exit.Usagef("--buffer %d: must be 1 to %d", e.buffer, events.MaxBuffer)
	}
	return nil
}

// run watches until the context or the time span ends.
func (e *watcher) run(ctx context.Context, addrs []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if e.span > 0 {
		defer time.AfterFunc(e.span, cancel).Stop()
	}
	if err := e.follow(ctx, addrs); err != nil {
		return err
	}
	return e.err
}

// follow watches the first reachable node and, when it loses that one, the next. It returns an
// error if it never reached any node, or if one refuses.
func (e *watcher) follow(ctx context.Context, addrs []string) error {
	for reached := false; ; {
		var last error
		for _, addr := range addrs {
			ok, err := e.watch(ctx, addr)
			if ctx.Err() != nil || e.err != nil {
				return nil
			}
			reached = reached || ok
			if remote.WrongPort(err) != "" {
				return e.NoneAnswers([]string{addr}, err)
			}
			switch status.Code(err) {
			case codes.InvalidArgument, codes.Unimplemented, codes.NotFound, codes.ResourceExhausted, codes.Unauthenticated, codes.PermissionDenied:
				return remote.Refusal(err)
			}
			last = err
			if ok {
				fmt.Fprintf(e.messages, "quorate: %s: the connection is lost: %s\n", addr, pki.ConnectionCause(status.Convert(err).Message()))
				break
			}
		}
		if !reached {
			return e.NoneAnswers(addrs, last)
		}
		if backoff.Sleep(ctx, watchRetry) != nil {
			return nil
		}
	}
}

// watch prints the events of one node until the connection ends, and reports whether it was
// connected.
func (e *watcher) watch(ctx context.Context, addr string) (reached bool, err error) {
	conn, err := e.Dial(addr)
	if err != nil {
		return false, err
	}
	defer conn.Close() //nolint:errcheck // nothing is lost
	stream, err := quoratev1.NewEventServiceClient(conn).Watch(ctx, e.req)
	if err != nil {
		return false, err
	}
	if md, err := stream.Header(); err == nil && md != nil {
		reached = true
		fmt.Fprintln(e.messages, "quorate:", e.watched(addr))
	}
	var lost uint64
	for {
		res, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			err = status.Error(codes.Unavailable, "the node closed the stream")
		}
		if err != nil {
			return reached, err
		}
		reached = true
		if res.Lost > lost {
			fmt.Fprintf(e.messages, "quorate: %s lost, %d in all: they were not read in time\n", phrase.Plural(int(res.Lost-lost), "event"), res.Lost)
			lost = res.Lost
		}
		e.noteMissing(res.MissingNodes)
		if res.Event == nil {
			continue
		}
		if e.err = e.print(res); e.err != nil {
			return reached, e.err // the reader of the output is gone
		}
	}
}

// noteMissing says when the nodes change whose events are missing.
func (e *watcher) noteMissing(now []string) {
	if slices.Equal(now, e.missing) {
		return
	}
	if e.missing = now; len(now) == 0 {
		fmt.Fprintln(e.messages, "quorate: complete: all nodes answer")
		return
	}
	fmt.Fprintf(e.messages, "quorate: incomplete: no answer from %s\n", phrase.Show(strings.Join(now, ", ")))
}

func (e *watcher) print(res *quoratev1.WatchResponse) error {
	return e.out.Print(res, func(p *render.Page) {
		ev := res.Event
		p.Record(e.table, eventText(ev, res.Node), ev.At.AsTime().UTC().Format(time.RFC3339Nano), render.Name(res.Node), render.Word(ev.Kind),
			render.Name(ev.Namespace), render.Name(ev.Limit), render.Name(ev.Key), ev.Cost, whyWord(ev), ev.Wait.AsDuration().Seconds(),
			render.Name(ev.Bucket), ev.Dynamic, ev.Shadow, ev.Near)
	})
}

// eventTable returns the table of -o csv.
func eventTable() *render.Table {
	return render.NewTable("TIME", "NODE", "KIND", "NAMESPACE", "LIMIT", "KEY", "COST", "WHY", "WAIT SECONDS", "BUCKET", "DYNAMIC", "SHADOW", "NEAR")
}

// whyWord returns the reason of an event, or "" if it has none.
func whyWord(ev *quoratev1.Event) string {
	if ev.Why == 0 {
		return ""
	}
	return render.Word(ev.Why)
}

// eventText formats an event of a node as one line.
func eventText(ev *quoratev1.Event, node string) string {
	parts := []string{ev.At.AsTime().UTC().Format("15:04:05.000"), phrase.Show(node), fmt.Sprintf("%-15s", render.Word(ev.Kind))}
	if ev.Limit != "" || ev.Namespace != "" {
		parts = append(parts, phrase.Show(ev.Namespace+"/"+ev.Limit), phrase.Show(ev.Key))
	}
	add := func(is bool, text string) {
		if is {
			parts = append(parts, text)
		}
	}
	add(ev.Cost != 0, fmt.Sprint("cost ", ev.Cost))
	add(ev.Why != 0, render.Word(ev.Why))
	add(ev.Wait.AsDuration() > 0, "wait "+render.Pause(ev.Wait))
	add(ev.Dynamic, "dynamic")
	add(ev.Bucket != "" && ev.Bucket != ev.Limit, "bucket "+phrase.Show(ev.Bucket))
	add(ev.Shadow, "shadow")
	add(ev.Near, "near")
	return strings.TrimRight(strings.Join(parts, "  "), " ")
}
