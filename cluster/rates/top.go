package rates

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

// TopRates asks all leaders for the keys with the highest demand, and merges the answers. It leaves out
// nodes that do not answer within a second; the answer says how many ranges it covers.
func (s *Reader) TopRates(ctx context.Context, req *quoratev1.TopRatesRequest) (*quoratev1.TopRatesResponse, error) {
	ask := &peerv1.CallRates{
		Top: min(max(req.Top, 1), apiproto.MaxTop), Namespace: req.Namespace, Limit: req.Limit, Order: int32(req.Order), KeyPrefix: req.KeyPrefix, Label: req.Label,
	}
	if req.PageToken != "" {
		after, err := base64.RawURLEncoding.DecodeString(req.PageToken)
		if err != nil || proto.Unmarshal(after, &quoratev1.KeyRate{}) != nil {
			return nil, status.Error(codes.InvalidArgument, "page_token: must be the next_page_token of an earlier answer")
		}
		ask.After = after
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	answers := []*peerv1.CallRatesResult{s.cfg.Replicas.Rates(ask)}
	var mu sync.Mutex
	var wg sync.WaitGroup
	answered := map[quota.NodeID]bool{} // the nodes asked, and whether they answered
	for _, id := range s.node.Members() {
		if id != s.cfg.Self {
			answered[id] = false
		}
	}
	for _, id := range s.node.Up() {
		wg.Go(func() {
			c, err := s.node.Call(ctx, id, &peerv1.Call{Body: &peerv1.Call_Rates{Rates: ask}})
			if err != nil {
				return // the answer counts the node's ranges as missing
			}
			mu.Lock()
			defer mu.Unlock()
			answered[id] = true
			answers = append(answers, c.GetRatesResult())
		})
	}
	wg.Wait()
	out := s.mergeRates(answers, ask)
	out.Limits = mergeErrors(answers)
	out.MembersCovered, out.MembersTotal, out.MissingMembers = int32(len(answers)), int32(len(answered)+1), missing(answered)
	return out, nil
}

// missing returns the nodes that did not answer, sorted.
func missing(answered map[quota.NodeID]bool) []string {
	var out []string
	for id, ok := range answered {
		if !ok {
			out = append(out, string(id))
		}
	}
	slices.Sort(out)
	return out
}

func (s *Reader) mergeRates(answers []*peerv1.CallRatesResult, ask *peerv1.CallRates) *quoratev1.TopRatesResponse {
	q := replica.RateQuery(ask)
	out := &quoratev1.TopRatesResponse{RangesTotal: int32(s.cfg.Ranges), AsOf: timestamppb.Now()}
	covered := map[uint32]bool{}
	best := map[quota.Key]*quoratev1.KeyRate{}
	for _, a := range answers {
		for _, r := range a.GetRanges() {
			covered[r] = true
		}
		for _, data := range a.GetKeys() {
			k := &quoratev1.KeyRate{}
			if proto.Unmarshal(data, k) != nil {
				continue
			}
			id := quota.Key{LimitName: quota.LimitName{Namespace: k.Namespace, Limit: k.Limit}, Key: k.Key}
			if have := best[id]; have == nil || have.Term < k.Term { // a deposed leader may also answer
				best[id] = k
			}
		}
	}
	for _, k := range best {
		if r := replica.Ranked(k); !quota.HasLabel(k.Key, q.Label) || q.After != nil && q.Order.Compare(q.After, &r) >= 0 {
			continue // from a node whose version ignores these parameters
		}
		out.Keys = append(out.Keys, k)
	}
	slices.SortFunc(out.Keys, func(a, b *quoratev1.KeyRate) int {
		x, y := replica.Ranked(a), replica.Ranked(b)
		return q.Order.Compare(&x, &y)
	})
	out.Keys = out.Keys[:min(q.Top, len(out.Keys))]
	out.RangesCovered = int32(len(covered))
	return out
}

// mergeErrors sums the measurements of all nodes, worst first.
func mergeErrors(answers []*peerv1.CallRatesResult) []*quoratev1.LimitError {
	sums := map[quota.LimitName]*quoratev1.LimitError{}
	for _, a := range answers {
		for _, data := range a.GetLimits() {
			e := &quoratev1.LimitError{}
			if proto.Unmarshal(data, e) != nil {
				continue
			}
			n := quota.LimitName{Namespace: e.Namespace, Limit: e.Limit}
			if sums[n] == nil {
				sums[n] = e
				continue
			}
			addError(sums[n], e)
		}
	}
	out := make([]*quoratev1.LimitError, 0, len(sums))
	for _, e := range sums {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b *quoratev1.LimitError) int {
		return cmp.Or(cmp.Compare(b.OverAdmitted, a.OverAdmitted), cmp.Compare(b.NeedlessRefusals, a.NeedlessRefusals),
			cmp.Compare(b.NeedlessRefusalsAtMost, a.NeedlessRefusalsAtMost), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Limit, b.Limit))
	})
	return out[:min(len(out), apiproto.MaxTop)]
}

func addError(to, e *quoratev1.LimitError) {
	to.Attempted += e.Attempted
	to.Admitted += e.Admitted
	to.OverAdmitted += e.OverAdmitted
	to.OverAdmittedCutOff += e.OverAdmittedCutOff
	to.NeedlessRefusals += e.NeedlessRefusals
	to.NeedlessRefusalsAtMost += e.NeedlessRefusalsAtMost
	to.WorstExcess = max(to.WorstExcess, e.WorstExcess)
	to.WorstExcessBursts = max(to.WorstExcessBursts, e.WorstExcessBursts)
	to.Bound = max(to.Bound, e.Bound)
	to.LongestGap = durationpb.New(max(to.LongestGap.AsDuration(), e.LongestGap.AsDuration()))
}
