package cluster

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
)

const (
	waitEvery   = 300 * time.Millisecond
	maxUnseen   = 30 * time.Second // without an answer from any node
	maxStill    = 5 * time.Minute  // without progress
	settledFor  = 2                // polls in a row with nothing left: at the first, the plan may not exist yet
	notTheMoves = "the moves continue without this command"
)

// waiting describes the end of a command's wait.
type waiting struct {
	node string
	what string // what is counted, such as "replicas moved"
	done string // printed at the end
	left func(st *quoratev1.GetStatusResponse, n *quoratev1.NodeStatus) int
	gone bool // wait until the node is no longer a member
}

// run polls until nothing is left. It shows progress on a terminal.
func (w *waiting) run(cmd *cobra.Command, t *remote.Targets) error {
	progress := render.NewProgress(cmd.ErrOrStderr())
	defer progress.End()
	start, seen, moved := time.Now(), time.Now(), time.Now()
	most, last, quiet := 0, 0, 0
	for {
		st, err := GetStatus(cmd.Context(), t)
		switch {
		case cmd.Context().Err() != nil:
			return fmt.Errorf("no longer waiting; %s", notTheMoves)
		case err != nil && (exit.CodeOf(err) != exit.Unreachable || time.Since(seen) > maxUnseen):
			return err
		case err == nil:
			seen = time.Now()
			left, over := 0, true // if the node is not a member
			if i := slices.IndexFunc(st.Nodes, func(n *quoratev1.NodeStatus) bool { return n.Id == w.node }); i >= 0 {
				left = w.left(st, st.Nodes[i])
				over = left == 0 && !w.gone
			}
			if most = max(most, left); left != last {
				last, moved = left, time.Now()
			}
			if over {
				quiet++
			} else {
				quiet = 0
			}
			if quiet >= settledFor {
				progress.End()
				text := w.done
				if most > 0 {
					text += fmt.Sprintf(": %d %s in %s", most, w.what, render.Span(time.Since(start).Round(100*time.Millisecond)))
				}
				fmt.Fprintln(cmd.ErrOrStderr(), text)
				return nil
			}
			if time.Since(moved) > maxStill {
				return exit.Errorf(exit.Unreachable, "%d of %d %s, no progress for %v%s; %s", most-left, most, w.what, maxStill, stepOf(st), notTheMoves)
			}
			progress.Bar(int64(most-left), int64(most), "%d of %d %s%s", most-left, most, w.what, stepOf(st))
		}
		_ = backoff.Sleep(cmd.Context(), waitEvery)
	}
}

// leadsLeft returns how many groups a node leads, including the meta group.
func leadsLeft(st *quoratev1.GetStatusResponse, n *quoratev1.NodeStatus) int {
	if st.MetaLeader == n.Id {
		return int(n.Leads) + 1
	}
	return int(n.Leads)
}

func unsettledRanges(st *quoratev1.GetStatusResponse, _ *quoratev1.NodeStatus) (left int) {
	for _, r := range st.Ranges {
		if len(r.Removed) > 0 || r.Step != "" || r.Leader == "" {
			left++
		}
	}
	return left
}

// stepOf returns the current step of the first range that has one.
func stepOf(st *quoratev1.GetStatusResponse) string {
	for _, r := range st.Ranges {
		if r.Step != "" {
			return fmt.Sprintf("; range %d: %s", r.Id, phrase.Show(r.Step))
		}
	}
	return ""
}
