package accounts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// readRequest is a read of one range: accounts, or a page of a list of accounts or realms.
type readRequest struct {
	id      quota.RangeID
	stale   bool
	ids     []account.ID
	history bool
	list    *page
	realms  *realmPage
}

// listed reports whether the answer names accounts or realms that the request does not.
func (q *readRequest) listed() bool { return q.list != nil || q.realms != nil }

// realmPage selects part of a list of realms.
type realmPage struct {
	after account.Realm
	limit int
}

// page selects part of a list.
type page struct {
	filter account.Filter
	after  account.ID
	limit  int
}

// reading is the answer to a read request.
type reading struct {
	at     quota.Time
	states []account.State
	realms []account.Realm
}

// GetAccounts returns the accounts in the order of ids, all as of one moment. The read is
// linearizable unless stale is set. ids may contain duplicates.
//
// It returns an [*UnavailableError], or a [*ConflictError] if other calls hold or change the
// accounts for too long.
func (s *Service) GetAccounts(ctx context.Context, ids []account.ID, stale bool) ([]account.State, quota.Time, error) {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	asked, places := s.readRequests(ids, stale)
	var before []reading
	for readings, try := 0, 0; readings < maxReadings; try++ {
		now, err := s.readAll(ctx, asked)
		if err != nil {
			return nil, 0, err
		}
		if !stale && s.resolveHolders(ctx, asked, now) {
			if before = nil; !pause(ctx, min(try, heldTries)) {
				return nil, 0, &ConflictError{"another call held the accounts for too long"}
			}
			continue
		}
		if stale || len(asked) == 1 || (before != nil && sameVersions(before, now)) {
			states, at := inOrder(now, places)
			return states, at, nil
		}
		before = now
		readings++
	}
	return nil, 0, &ConflictError{fmt.Sprintf("other calls changed the accounts during each of %d readings", maxReadings)}
}

// heldTries caps the pause of a reader, which blocks no other call.
const heldTries = 2

// place locates an account's state in the readings.
type place struct{ request, index int }

func (s *Service) readRequests(ids []account.ID, stale bool) ([]readRequest, []place) {
	var asked []readRequest
	of := map[quota.RangeID]int{}
	places := make([]place, len(ids))
	for i, id := range ids {
		r := s.rangeOf(id)
		at, ok := of[r]
		if !ok {
			at = len(asked)
			of[r] = at
			asked = append(asked, readRequest{id: r, stale: stale})
		}
		places[i] = place{at, len(asked[at].ids)}
		asked[at].ids = append(asked[at].ids, id)
	}
	return asked, places
}

// inOrder returns the states at their places, all as of the latest of the readings, and the time of that.
func inOrder(list []reading, places []place) ([]account.State, quota.Time) {
	var at quota.Time
	for _, r := range list {
		at = max(at, r.at)
	}
	out := make([]account.State, len(places))
	for i, p := range places {
		out[i] = list[p.request].states[p.index].At(at)
	}
	return out, at
}

// sameVersions reports whether nothing changed between two readings of the same accounts. If so,
// there was a moment at which all states were as read.
func sameVersions(a, b []reading) bool {
	return slices.EqualFunc(a, b, func(a, b reading) bool {
		return slices.EqualFunc(a.states, b.states, func(a, b account.State) bool {
			return a.Exists == b.Exists && a.Version == b.Version
		})
	})
}

// resolveHolders resolves the transactions that hold accounts for another home, and reports whether
// there are any: the home may already have decided to change the account. At its home, a
// transaction that still holds an account is undecided, so the state there is correct.
func (s *Service) resolveHolders(ctx context.Context, asked []readRequest, list []reading) bool {
	held := false
	for i := range list {
		for j := range list[i].states {
			if holder := list[i].states[j].Holder; holder != (account.Tx{}) && holder.Home != asked[i].id {
				held = true
				s.resolve(ctx, asked[i].id, holder)
			}
		}
	}
	return held
}

// AccountHistory returns an account with its latest changes. The read is linearizable.
func (s *Service) AccountHistory(ctx context.Context, id account.ID) (account.State, error) {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	q := readRequest{id: s.rangeOf(id), ids: []account.ID{id}, history: true}
	for try := 0; ; try++ {
		r, err := s.read(ctx, &q)
		if err != nil {
			return account.State{}, err
		}
		if !s.resolveHolders(ctx, []readRequest{q}, []reading{r}) {
			return r.states[0], nil
		}
		if !pause(ctx, min(try, heldTries)) {
			return account.State{}, &ConflictError{"another call held the account for too long"}
		}
	}
}

// maxReaders bounds the concurrent reads of one call.
const maxReaders = 16

func (s *Service) readAll(ctx context.Context, asked []readRequest) ([]reading, error) {
	out := make([]reading, len(asked))
	if len(asked) == 1 {
		var err error
		out[0], err = s.read(ctx, &asked[0])
		return out, err
	}
	errs := make([]error, len(asked))
	slots := make(chan struct{}, maxReaders)
	var wg sync.WaitGroup
	for i := range asked {
		slots <- struct{}{}
		wg.Go(func() {
			out[i], errs[i] = s.read(ctx, &asked[i])
			<-slots
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// read retries until it gets an answer or ctx ends.
func (s *Service) read(ctx context.Context, q *readRequest) (reading, error) {
	for try := 0; ; try++ {
		r, err := s.readOnce(ctx, q)
		if err == nil || errors.Is(err, errRefused) {
			return r, err
		}
		if !pause(ctx, try) {
			return r, &UnavailableError{Reason: err.Error()} // a reading is never in doubt
		}
	}
}
