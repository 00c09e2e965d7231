package api

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/planner"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds of rates.
const (
	maxRateWatchers = 64
	MaxWatchPause   = time.Minute
	minWatchPause   = time.Second
	maxLabel        = 256  // bytes of a label
	maxPageToken    = 4096 // bytes
)

// RateService answers questions about the rates of keys and, through its Planner, about the history
// of limits.
type RateService struct {
	quoratev1.UnsafeRateServiceServer // all calls are in this package or in Planner
	*core
	node rateNode
	*planner.Planner
}

// TopRates implements quoratev1.RateServiceServer.
func (s *RateService) TopRates(ctx context.Context, req *quoratev1.TopRatesRequest) (*quoratev1.TopRatesResponse, error) {
	if err := s.checkTop(req); err != nil {
		return nil, err
	}
	if err := checkLabels(req); err != nil {
		return nil, err
	}
	ask := proto.CloneOf(req)
	ask.Top = min(req.Top+1, apiproto.MaxTop) // one more shows whether another page follows
	if req.GroupBy != "" {
		ask.Top = apiproto.MaxTop
	}
	res, err := s.node.TopRates(ctx, ask)
	if err != nil {
		return nil, apierr.From(err)
	}
	if err := s.neverSeen(req, res); err != nil {
		return nil, err
	}
	if req.GroupBy != "" {
		group(res, req.GroupBy, quota.RateOrder(req.Order))
	}
	if n := len(res.Keys); n > int(req.Top) || n == apiproto.MaxTop {
		res.Keys = res.Keys[:req.Top]
		res.NextPageToken = PageToken(res.Keys[len(res.Keys)-1])
	}
	s.completeRules(res.GetKeys())
	s.completeLimits(res.GetLimits())
	return res, nil
}

// neverSeen returns an error if a question names a limit that does not exist and has no keys: a
// mistake is more likely than a limit without traffic.
func (s *RateService) neverSeen(req *quoratev1.TopRatesRequest, res *quoratev1.TopRatesResponse) error {
	name := quota.LimitName{Namespace: req.Namespace, Limit: req.Limit}
	limits := s.node.Limits()
	if req.Limit == "" || len(res.Keys) > 0 || limits == nil || limits.Version == 0 { // this node knows no limits yet
		return nil
	}
	if _, there := limits.Find(name); there {
		return nil
	}
	return s.noSuchLimit(name)
}

// completeLimits adds to each limit its enforcement: whether excess requests were refused.
func (s *RateService) completeLimits(list []*quoratev1.LimitError) {
	limits := s.node.Limits()
	for _, e := range list {
		if l, ok := limits.Find(quota.LimitName{Namespace: e.Namespace, Limit: e.Limit}); ok {
			e.Enforcement, e.Fraction = apiproto.EnforcementProto(l)
		}
	}
}

// PageToken returns the token of the page that follows a key.
func PageToken(k *quoratev1.KeyRate) string {
	at := &quoratev1.KeyRate{
		Namespace: k.Namespace, Limit: k.Limit, Key: k.Key, Rate: k.Rate, Demand: k.Demand, Attempted: k.Attempted, Admitted: k.Admitted, Refused: k.Refused,
		Remaining: k.Remaining, OverAdmitted: k.OverAdmitted, NeedlessRefusals: k.NeedlessRefusals, NeedlessRefusalsAtMost: k.NeedlessRefusalsAtMost, Utilisation: k.Utilisation,
	}
	data, err := proto.Marshal(at)
	if err != nil {
		return "" // a key that is not UTF-8 is in no answer
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// checkLabels validates the label, the group label and the page token.
func checkLabels(req *quoratev1.TopRatesRequest) error {
	if l := req.Label; l != "" {
		if name, _, ok := strings.Cut(l, "="); !ok || name == "" || len(l) > maxLabel {
			return apierr.Invalid("label", "is %q; must be name=value, or 1=value for the first part of keys, at most %d bytes", apierr.Clip(l), maxLabel)
		}
	}
	if err := checkLength("group_by", req.GroupBy, maxLabel); err != nil {
		return err
	}
	if strings.Contains(req.GroupBy, "=") {
		return apierr.Invalid("group_by", "is %q; must be the name of a label, or the number of a part, without a value", apierr.Clip(req.GroupBy))
	}
	if req.PageToken == "" {
		return nil
	}
	data, err := base64.RawURLEncoding.DecodeString(req.PageToken)
	if err != nil || len(req.PageToken) > maxPageToken || proto.Unmarshal(data, &quoratev1.KeyRate{}) != nil {
		return apierr.Invalid("page_token", "must be the next_page_token of an earlier answer; omit it to begin again")
	}
	return nil
}

// group adds up the rates of keys by the value of a label.
func group(res *quoratev1.TopRatesResponse, by string, order quota.RateOrder) {
	groups := map[string]*quoratev1.RateGroup{}
	for _, k := range res.Keys {
		v, _ := quota.LabelOf(k.Key, by)
		g := groups[v]
		if g == nil {
			g = &quoratev1.RateGroup{Value: v, Remaining: k.Remaining}
			groups[v] = g
		}
		g.Keys++
		g.Rate += k.Rate
		g.Demand += k.Demand
		g.Attempted += k.Attempted
		g.Admitted += k.Admitted
		g.Refused += k.Refused
		g.OverAdmitted += k.OverAdmitted
		g.NeedlessRefusals += k.NeedlessRefusals
		g.NeedlessRefusalsAtMost += k.NeedlessRefusalsAtMost
		g.Utilisation = max(g.Utilisation, k.Utilisation)
		g.Remaining = min(g.Remaining, k.Remaining)
	}
	for _, g := range groups {
		res.Groups = append(res.Groups, g)
	}
	slices.SortFunc(res.Groups, func(a, b *quoratev1.RateGroup) int {
		x, y := rankedGroup(a), rankedGroup(b)
		return cmp.Or(order.Compare(&x, &y), strings.Compare(a.Value, b.Value))
	})
	res.KeysGrouped, res.GroupsPartial = int32(len(res.Keys)), len(res.Keys) >= apiproto.MaxTop
}

func rankedGroup(g *quoratev1.RateGroup) quota.KeyRate {
	return quota.KeyRate{
		Key: quota.Key{Key: g.Value}, Rate: g.Rate, Demand: g.Demand, Utilisation: g.Utilisation, Attempted: g.Attempted, Admitted: g.Admitted,
		Refused: g.Refused, Remaining: g.Remaining, OverAdmitted: quota.Units(g.OverAdmitted * float64(quota.Token)), Needless: quota.Units(g.NeedlessRefusals * float64(quota.Token)),
		NeedlessAtMost: quota.Units(g.NeedlessRefusalsAtMost * float64(quota.Token)),
	}
}

// Stream sends the rates repeatedly until ctx ends or send fails. It skips the rates that a slow
// reader is not ready for, and does not queue them.
func (s *RateService) Stream(ctx context.Context, req *quoratev1.WatchRatesRequest, send func(*quoratev1.WatchRatesResponse) error) error {
	pause := minWatchPause
	if req.Interval != nil {
		if pause = req.Interval.AsDuration(); pause < minWatchPause || pause > MaxWatchPause {
			return apierr.Invalid("interval", "%v; must be %v to %v", pause, minWatchPause, MaxWatchPause)
		}
	}
	stop, err := takeShare(ctx, s.watchers, 1, "watchers of rates")
	if err != nil {
		return err
	}
	defer stop()
	ask := &quoratev1.TopRatesRequest{
		Top: req.Top, Namespace: req.Namespace, Limit: req.Limit, Order: req.Order, KeyPrefix: req.KeyPrefix, Label: req.Label, GroupBy: req.GroupBy,
	}
	next := time.Now()
	tick := time.NewTimer(0)
	defer tick.Stop()
	var skipped uint64
	known := time.Now()
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return nil
		case <-s.closing:
			return nil
		case <-tick.C:
		}
		if err := s.StillAuthorized(ctx, &known); err != nil {
			return err
		}
		res, err := s.TopRates(ctx, ask)
		switch {
		case err != nil && (first || apierr.From(err).Code == codes.InvalidArgument):
			return err
		case err != nil:
			skipped++
		case send(&quoratev1.WatchRatesResponse{Rates: res, Skipped: skipped}) != nil:
			return nil // the watcher has gone
		}
		next = next.Add(pause)
		for late := time.Since(next); late > 0; late = time.Since(next) {
			next = next.Add(pause)
			skipped++
		}
		tick.Reset(time.Until(next))
	}
}

// WatchRates implements quoratev1.RateServiceServer.
func (s *RateService) WatchRates(req *quoratev1.WatchRatesRequest, stream quoratev1.RateService_WatchRatesServer) error {
	return unlessStuck(s.Stuck, func(around func(func() error) error) error {
		send := func(m *quoratev1.WatchRatesResponse) error { return around(func() error { return stream.Send(m) }) }
		if err := s.Stream(stream.Context(), req, send); err != nil {
			return err
		}
		return stream.Context().Err()
	})
}
