package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/api/apijson"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
)

// flags holds the flags of "top".
type flags struct {
	remote.Targets
	by    string
	every time.Duration
	once  bool

	asking sync.Mutex // a poll may start while another is running
}

// Bounds of --every.
const (
	minEvery = 200 * time.Millisecond
	maxEvery = time.Hour
)

// Size of a screen that is printed once.
const (
	stillWidth  = 120
	stillHeight = 40
)

// NewCommand returns "quorate top".
func NewCommand() *cobra.Command {
	var o flags
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the busiest limits and keys",
		Long: `Watch the busiest limits of the whole cluster, and the keys of one of them:
enter shows the keys of the selected limit, esc goes back, < and > sort by
another column, / filters by prefix, ? shows the other keys. --once prints one
screen, and needs no terminal.`,
		Example: `  quorate top
  quorate top --every 500ms --by refusal_rate
  quorate top --once`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.AddFlags(cmd)
	_, orders := apijson.EnumOf(quoratev1.RateOrder(0).Descriptor(), "")
	cmd.Flags().StringVar(&o.by, "by", "demand", "how keys are sorted at first: "+strings.Join(orders, ", "))
	render.CompleteWords(cmd, "by", orders...)
	cmd.Flags().DurationVar(&o.every, "every", time.Second, "how often to ask, 200ms to 1h")
	cmd.Flags().BoolVar(&o.once, "once", false, "print one screen after one interval, and end")
	return cmd
}

func (o *flags) run(cmd *cobra.Command) error {
	if o.every < minEvery || o.every > maxEvery {
		return exit.Usagef("--every %v: must be %v to %s", o.every, minEvery, render.Span(maxEvery))
	}
	order, orders := apijson.EnumOf(quoratev1.RateOrder(0).Descriptor(), o.by)
	if order == 0 {
		return exit.Usagef("--by %q: must be one of %s", o.by, strings.Join(orders, ", "))
	}
	drop := o.ReuseConns()
	defer drop()
	screen := newModel(o.ask, options{Every: o.every, Plain: !bool(render.Colours(cmd)), Order: quoratev1.RateOrder(order)})
	if o.once {
		text, err := screen.Once(stillWidth, stillHeight)
		if err == nil {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
		}
		return err
	}
	if !render.OnTerminal(cmd.OutOrStdout()) || !render.OnTerminal(cmd.InOrStdin()) || os.Getenv("TERM") == "dumb" {
		return exit.Usagef("top needs a terminal; --once prints one screen, and \"quorate rates\" prints tables for programs")
	}
	if _, _, err := o.ask(cmd.Context(), &quoratev1.TopRatesRequest{Top: 1}); err != nil { // report errors before taking over the screen
		return err
	}
	_, err := tea.NewProgram(screen, tea.WithContext(cmd.Context()), tea.WithInput(cmd.InOrStdin()), tea.WithOutput(cmd.OutOrStdout())).Run()
	if errors.Is(err, tea.ErrInterrupted) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// ask asks one node for status and rates. It is safe for concurrent use.
func (o *flags) ask(ctx context.Context, req *quoratev1.TopRatesRequest) (st *quoratev1.GetStatusResponse, res *quoratev1.TopRatesResponse, err error) {
	o.asking.Lock()
	defer o.asking.Unlock()
	err = o.Call(ctx, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		if st, err = quoratev1.NewClusterServiceClient(conn).GetStatus(ctx, &quoratev1.GetStatusRequest{}); err != nil {
			return err
		}
		res, err = quoratev1.NewRateServiceClient(conn).TopRates(ctx, req)
		return err
	})
	return st, res, err
}
