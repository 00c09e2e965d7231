package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/bench/process"
	"github.com/quorate/quorate/bench/suite"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// Each key has used a part of a limit that takes hours to fill again, so that its leader must remember
// it. While leaders change, callers also ask for keys of ranges that other nodes lead.
const (
	leadLimits = `version: 1
namespaces:
  api:
    limits:
      soft: {rate: 1000/d, burst: 1000}
      hard: {rate: 1000/d, burst: 1000, ceiling: hard}
      other: {rate: 1000/s, burst: 1000}
`
	leadCost  = 50
	leadBatch = 20                    // checks of a hard limit wait for grants, one after the other
	fillers   = 256                   // callers that do so
	fillRate  = 12_000                // keys a second; at full speed, on two CPUs, leaders change during the filling
	fillAgain = 20 * time.Millisecond // before refused checks are repeated
	leadPause = 5 * time.Millisecond  // between the checks of a caller
	leadWatch = 5 * time.Second       // before and after the leaders change
)

// playLead fills a node with keys of ranges that it leads, and then takes its leaderships away: they are handed over, or,
// in another cluster, the node is killed. It prints what the keys cost, and how long new keys have no grant.
func playLead(ctx context.Context, keys int) error {
	defer process.Cleanup()
	fmt.Printf("Three nodes, %d ranges; n1 leads all keys, each used once.\n\n", realRanges)
	fmt.Println("| ceiling | keys | filled at, keys/s | bytes a key: n1 | n2, n3 | a core: n1 before | with the keys, not asked | leaders change because | until a new key has a grant, ms, longest before | after | others' p99, ms, before | after | longest, before | after | errors |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, limit := range []string{"soft", "hard"} {
		for _, kill := range []bool{false, true} {
			err := errLeadersChanged
			for tries := 0; tries < 3 && errors.Is(err, errLeadersChanged); tries++ {
				err = lead(ctx, limit, keys, kill)
			}
			if err != nil {
				return fmt.Errorf("%s, kill %v: %w", limit, kill, err)
			}
		}
	}
	return nil
}

var errLeadersChanged = errors.New("leaders changed during the filling: the machine is too busy")

// lead prints one row. It returns errLeadersChanged if n1 has lost a range before its leaderships are taken away.
func lead(ctx context.Context, limit string, keys int, kill bool) (err error) {
	c, err := process.NewCluster(ctx, process.Options{Nodes: 3, Ranges: realRanges, Limits: leadLimits, More: fmt.Sprintf("max_keys: %d\n", 10*keys)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var conns []*grpc.ClientConn
	for _, addr := range c.Addrs() {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		conns = append(conns, conn)
	}
	time.Sleep(quiet)
	ranges, err := rangesLedBy(ctx, conns[0], c.Nodes[0].ID)
	if err != nil {
		return err
	}
	of := map[quota.RangeID][]string{} // the keys of each range that n1 leads
	for _, r := range ranges {
		of[r] = nil
	}
	all := keysOf(of, limit, keys)

	before, err := resident(c)
	if err != nil {
		return err
	}
	idle, err := core(c.Nodes[0], leadWatch)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := fill(ctx, conns[0], limit, all); err != nil {
		return err
	}
	took := time.Since(began)
	time.Sleep(quiet) // until keys are closed, and packed
	after, err := resident(c)
	if err != nil {
		return err
	}
	led, err := core(c.Nodes[0], leadWatch)
	if err != nil {
		return err
	}

	if still, err := rangesLedBy(ctx, conns[0], c.Nodes[0].ID); err != nil {
		return err
	} else if !slices.Equal(still, ranges) {
		return errLeadersChanged
	}
	w := watchers{limit: limit, end: make(chan struct{})}
	for r, keys := range of {
		w.grants(conns[1+int(r)%2], keys)
	}
	for i := range 2 {
		w.others(conns[1+i], of)
	}
	time.Sleep(leadWatch)
	change, why := time.Now(), "they are handed over"
	if kill {
		why = "n1 is killed"
		c.Nodes[0].Kill()
	} else if _, err := quoratev1.NewClusterServiceClient(conns[0]).TransferLeadership(ctx, &quoratev1.TransferLeadershipRequest{From: c.Nodes[0].ID}); err != nil {
		return err
	}
	time.Sleep(leadWatch)
	close(w.end)
	w.wg.Wait()
	if w.err != nil {
		return w.err
	}

	n := suite.Number
	perKey := func(i int) string { return n((after[i] - before[i]) / float64(len(all))) }
	calm, hurt := split(w.calls, change)
	granted, late := split(w.granted, change)
	fmt.Printf("| %s | %d | %s | %s | %s, %s | %s %% | %s %% | %s | %s | %s | %s | %s | %s | %s | %d |\n", limit, len(all), n(float64(len(all))/took.Seconds()), perKey(0), perKey(1), perKey(2),
		n(idle), n(led), why, millis(granted, 1), millis(late, 1), millis(calm, 0.99), millis(hurt, 0.99), millis(calm, 1), millis(hurt, 1), w.failed.Load())
	return nil
}

// rangesLedBy returns the ranges that a node leads, in order.
func rangesLedBy(ctx context.Context, conn *grpc.ClientConn, node string) (out []quota.RangeID, err error) {
	status, err := quoratev1.NewClusterServiceClient(conn).GetStatus(ctx, &quoratev1.GetStatusRequest{})
	if err != nil {
		return nil, err
	}
	for _, r := range status.Ranges {
		if r.Leader == node {
			out = append(out, quota.RangeID(r.Id))
		}
	}
	slices.Sort(out)
	return out, nil
}

// keysOf distributes new keys to the ranges that they belong to, until there are enough. It returns them range by
// range: if the logs of all ranges grew evenly, all would write their snapshots at once.
func keysOf(of map[quota.RangeID][]string, limit string, most int) (all []string) {
	for i, n := 0, 0; n < most; i++ {
		key := fmt.Sprintf("tenant-%017d", i)
		r := shard.Of(quota.Key{LimitName: quota.LimitName{Namespace: "api", Limit: limit}, Key: key}, realRanges)
		if keys, ok := of[r]; ok {
			of[r] = append(keys, key)
			n++
		}
	}
	for _, keys := range of {
		all = append(all, keys...)
	}
	return all
}

// fill asks once for each key, in batches of several callers, at fillRate at most.
func fill(ctx context.Context, conn *grpc.ClientConn, limit string, keys []string) error {
	batches := make(chan []string)
	errs := make(chan error, fillers)
	for range cap(errs) {
		go func() {
			var failed error
			for batch := range batches {
				if failed == nil {
					failed = fillBatch(ctx, conn, limit, batch)
				}
			}
			errs <- failed
		}()
	}
	began, sent := time.Now(), 0
	for batch := range slices.Chunk(keys, leadBatch) {
		time.Sleep(time.Duration(sent)*time.Second/fillRate - time.Since(began))
		batches <- batch
		sent += len(batch)
	}
	close(batches)
	var all []error
	for range cap(errs) {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// fillBatch repeats the refused checks of a batch: a hard limit refuses while it waits for the log for too long.
func fillBatch(ctx context.Context, conn *grpc.ClientConn, limit string, keys []string) error {
	cost := int64(leadCost)
	for tries := 0; len(keys) > 0; tries++ {
		if tries == 100 {
			return fmt.Errorf("%d keys of a batch are refused", len(keys))
		}
		if tries > 0 {
			time.Sleep(fillAgain)
		}
		req := &quoratev1.AllowBatchRequest{}
		for _, k := range keys {
			req.Checks = append(req.Checks, &quoratev1.AllowRequest{Namespace: "api", Limit: limit, Key: k, Cost: &cost})
		}
		res, err := quoratev1.NewQuotaServiceClient(conn).AllowBatch(ctx, req)
		if err != nil {
			return err
		}
		var again []string
		for i, r := range res.Results {
			if !r.GetResponse().GetAllowed() {
				again = append(again, keys[i])
			}
		}
		keys = again
	}
	return nil
}

// resident returns the resident bytes of each node without mapped files.
func resident(c *process.Cluster) ([]float64, error) {
	var out []float64
	for _, p := range c.Processes() {
		all, files, err := process.RSS(p.PID())
		if err != nil {
			return nil, err
		}
		out = append(out, float64(all-files))
	}
	return out, nil
}

// core returns the processor time of a node for some time, in percent of a core.
func core(n *process.Node, d time.Duration) (float64, error) {
	before, err := process.CPU(n.Process)
	if err != nil {
		return 0, err
	}
	time.Sleep(d)
	after, err := process.CPU(n.Process)
	return 100 * (after - before).Seconds() / d.Seconds(), err
}

// watchers ask until the end.
type watchers struct {
	limit  string
	end    chan struct{}
	wg     sync.WaitGroup
	failed atomic.Int64

	mu      sync.Mutex
	err     error
	granted []call // until a new key had a grant
	calls   []call // checks of other keys
}

// call is a call, with its start and its duration.
type call struct {
	at   time.Time
	took time.Duration
}

// every calls f with pauses until the end, and the last time with end set.
func (w *watchers) every(f func(i int, end bool)) {
	w.wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-w.end:
				f(i, true)
				return
			case <-time.After(leadPause):
				f(i, false)
			}
		}
	})
}

// grants asks for a key of a range, which the asked node does not have yet, until the leader has granted tokens. Then it asks
// for the next one.
func (w *watchers) grants(conn *grpc.ClientConn, keys []string) {
	at, began := 0, time.Now()
	w.every(func(_ int, end bool) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		res, err := quoratev1.NewQuotaServiceClient(conn).Allow(ctx, &quoratev1.AllowRequest{Namespace: "api", Limit: w.limit, Key: keys[at%len(keys)]})
		w.mu.Lock()
		defer w.mu.Unlock()
		w.err = errors.Join(w.err, err)
		if end || res.GetAllowed() && res.GetWhy() == quoratev1.Why_WHY_HELD { // at the end, how long it has waited so far
			w.granted = append(w.granted, call{began, time.Since(began)})
			at, began = at+1, time.Now()
		}
	})
}

// others asks for keys of the ranges that n1 does not lead.
func (w *watchers) others(conn *grpc.ClientConn, led map[quota.RangeID][]string) {
	var keys []string
	for i := 0; len(keys) < 1000; i++ {
		key := fmt.Sprintf("other-%d", i)
		if _, ok := led[shard.Of(quota.Key{LimitName: quota.LimitName{Namespace: "api", Limit: "other"}, Key: key}, realRanges)]; !ok {
			keys = append(keys, key)
		}
	}
	w.every(func(i int, _ bool) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		began := time.Now()
		res, err := quoratev1.NewQuotaServiceClient(conn).Allow(ctx, &quoratev1.AllowRequest{Namespace: "api", Limit: "other", Key: keys[i%len(keys)]})
		if err != nil || !res.GetAllowed() {
			w.failed.Add(1)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.calls = append(w.calls, call{began, time.Since(began)})
	})
}

// split returns how long calls took that ended before a moment, and that ended after it.
func split(calls []call, at time.Time) (before, after []time.Duration) {
	for _, c := range calls {
		if c.at.Add(c.took).Before(at) {
			before = append(before, c.took)
		} else {
			after = append(after, c.took)
		}
	}
	slices.Sort(before)
	slices.Sort(after)
	return before, after
}

// millis returns a quantile of sorted times.
func millis(sorted []time.Duration, q float64) string {
	if len(sorted) == 0 {
		return "-"
	}
	return suite.Number(float64(sorted[int(q*float64(len(sorted)-1))].Microseconds()) / 1000)
}
