package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/bench/suite"
	"google.golang.org/protobuf/types/known/durationpb"
)

// The exact part of the load: a hard limit that is asked for more than it has, durable limits, and accounts.
const (
	hardRate   = 100 // tokens a second, and the burst
	hardAsks   = 5 * time.Millisecond
	soakers    = 4 // that change accounts
	soakPause  = 10 * time.Millisecond
	accounts   = 200
	patience   = time.Minute // until a call is answered, through all faults
	accountApp = "soak"
)

// exact counts what must be exact, whatever fails during the run.
type exact struct {
	l        *load
	began    time.Time
	stop     chan struct{}
	wg       sync.WaitGroup
	admitted atomic.Int64 // of the hard limit
	changed  atomic.Int64 // acknowledged changes of accounts
	again    atomic.Int64 // calls that were repeated
	durables []*durable

	mu  sync.Mutex
	err error
}

func startExact(ctx context.Context, l *load) (*exact, error) {
	e := &exact{l: l, began: time.Now(), stop: make(chan struct{})}
	for i := range accounts {
		op := change(i)
		op.RelativeTo = quoratev1.RelativeTo_RELATIVE_TO_ZERO
		op.Delta = 0
		if err := e.apply(ctx, 0, &quoratev1.ApplyOpsRequest{RequestId: fmt.Sprintf("open-%d", i), Ops: []*quoratev1.Op{op}}); err != nil {
			return nil, err
		}
	}
	for w := range len(l.conns) {
		e.every(hardAsks, func(int) {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			res, err := quoratev1.NewQuotaServiceClient(l.conns[w]).Allow(ctx, &quoratev1.AllowRequest{Namespace: "soak", Limit: "hard", Key: "k"})
			if err == nil && res.GetAllowed() {
				e.admitted.Add(1)
			}
		})
	}
	for _, name := range durableNames {
		d := &durable{limit: name}
		e.durables = append(e.durables, d)
		for w := range len(l.conns) {
			e.every(durableAsks, func(int) { d.ask(l, w) })
		}
	}
	for w := range soakers {
		e.every(soakPause, func(i int) {
			req := &quoratev1.ApplyOpsRequest{RequestId: fmt.Sprintf("%d-%d", w, i), RequestIdTtl: durationpb.New(2 * patience), Ops: []*quoratev1.Op{change(soakers*i + w), change(soakers*i + w + 7)}}
			if err := e.apply(ctx, i, req); err != nil {
				e.fail(err)
				return
			}
			e.changed.Add(2)
		})
	}
	return e, nil
}

// every repeats f with pauses until the end.
func (e *exact) every(pause time.Duration, f func(i int)) {
	e.wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-e.stop:
				return
			case <-time.After(pause):
				f(i)
			}
		}
	})
}

func (e *exact) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

func change(i int) *quoratev1.Op {
	return &quoratev1.Op{
		AccountId: &quoratev1.AccountID{AppId: accountApp, Realm: "project:soak", Name: strconv.Itoa(i % accounts), ResourceType: "units"},
		Delta:     1, Options: uint32(quoratev1.OpOption_OP_OPTION_IGNORE_POLICY_BOUNDS),
	}
}

// apply repeats a call, with its request id, until it is answered.
func (e *exact) apply(ctx context.Context, i int, req *quoratev1.ApplyOpsRequest) error {
	until := time.Now().Add(patience)
	for ; ; i++ {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		res, err := quoratev1.NewAccountServiceClient(e.l.conns[i%len(e.l.conns)]).ApplyOps(try, req)
		cancel()
		switch {
		case err == nil && res.GetApplied():
			return nil
		case err == nil:
			return fmt.Errorf("request %s is not applied: %v", req.RequestId, res)
		case ctx.Err() != nil || time.Now().After(until):
			return fmt.Errorf("request %s, for %v: %w", req.RequestId, patience, err)
		}
		e.again.Add(1)
		time.Sleep(10 * time.Millisecond)
	}
}

// verdict ends the load and returns what was counted, and whether it is exact.
func (e *exact) verdict(ctx context.Context) (text string, ok bool, err error) {
	close(e.stop)
	e.wg.Wait()
	most := hardRate + int64(time.Since(e.began).Seconds()*hardRate) + 1
	admitted, changed := e.admitted.Load(), e.changed.Load()
	req := &quoratev1.GetAccountsRequest{}
	for i := range accounts {
		req.Accounts = append(req.Accounts, change(i).AccountId)
	}
	res, err := quoratev1.NewAccountServiceClient(e.l.conns[0]).GetAccounts(ctx, req)
	if err := errors.Join(err, e.err); err != nil {
		return "", false, err
	}
	var there int64
	for _, a := range res.Accounts {
		there += a.ProjectedBalance
	}
	counts, exactly, err := e.durable(ctx)
	if err != nil {
		return "", false, err
	}
	text = fmt.Sprintf("\nEach call on accounts has a request ID and is repeated until it is answered: there were %d repetitions.\n\n| exact counts | counted | expected | correct |\n|---|---|---|---|\n| tokens admitted under a hard limit | %s | at most %s | %v |\n| changes of accounts in the final balances | %s | %s, all that were acknowledged | %v |\n",
		e.again.Load(), suite.Number(float64(admitted)), suite.Number(float64(most)), admitted <= most, suite.Number(float64(there)), suite.Number(float64(changed)), there == changed)
	return text + counts, exactly && admitted <= most && admitted > most/10 && there == changed, nil
}
