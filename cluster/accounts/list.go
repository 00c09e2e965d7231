package accounts

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// ListAccounts returns up to limit accounts after the given one, from all ranges, ordered by the
// parts of their IDs. Each account is as of some moment during the call; the list as a whole is not
// as of one moment.
func (s *Service) ListAccounts(ctx context.Context, f account.Filter, after account.ID, limit int) ([]account.State, error) {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	limit = min(max(limit, 0), maxPage)
	var asked []readRequest
	if f.Namespace != nil && strings.HasPrefix(*f.Namespace, "@") { // all are in one range
		placed := s.rangeOf(account.ID{App: f.App, Realm: f.Realm, Namespace: *f.Namespace})
		asked = append(asked, readRequest{id: placed, list: &page{f, after, limit}})
	} else {
		asked = s.everyRange(readRequest{list: &page{f, after, limit}})
	}
	list, err := s.readAll(ctx, asked)
	if err != nil {
		return nil, err
	}
	var out []account.State
	for _, r := range list {
		out = append(out, r.states...)
	}
	slices.SortFunc(out, func(a, b account.State) int { return a.ID.Compare(b.ID) })
	return out[:min(limit, len(out))], nil
}

// ListRealms returns up to limit realms that have accounts and sort after the given one, from all
// ranges, sorted. Like a list of accounts, it is not as of one moment.
func (s *Service) ListRealms(ctx context.Context, after account.Realm, limit int) ([]account.Realm, error) {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	limit = min(max(limit, 0), maxPage)
	after = account.Realm{App: after.App, Name: after.Name}
	list, err := s.readAll(ctx, s.everyRange(readRequest{realms: &realmPage{after, limit}}))
	if err != nil {
		return nil, err
	}
	lists := make([][]account.Realm, len(list))
	for i := range list {
		lists[i] = list[i].realms
	}
	return account.MergeRealms(limit, lists...), nil
}

// everyRange returns the read request for each range that has accounts.
func (s *Service) everyRange(q readRequest) []readRequest {
	asked := make([]readRequest, withAccounts(s.cfg.Ranges))
	for n := range asked {
		q.id = nthWithAccounts(n, s.cfg.Ranges)
		asked[n] = q
	}
	return asked
}

// awaitPrepared waits until the transactions that the range has now prepared for another home have ended
// there. One that is already committed may create accounts, whose names the caller of a list cannot
// know.
func (s *Service) awaitPrepared(ctx context.Context, r quota.RangeID, replica *Replica) error {
	prepared := func() map[account.Tx]bool {
		out := map[account.Tx]bool{}
		for _, p := range replica.View().Pending(math.MaxInt) {
			if !p.AtHome {
				out[p.Tx] = true
			}
		}
		return out
	}
	first := prepared()
	for try := 0; len(first) > 0; try++ {
		for tx := range first {
			s.resolve(ctx, r, tx)
		}
		still := prepared()
		maps.DeleteFunc(first, func(tx account.Tx, _ bool) bool { return !still[tx] })
		if len(first) > 0 && !pause(ctx, min(try, heldTries)) {
			return fmt.Errorf("%w: a prepared transaction in range %d does not end", errNotLeader, r)
		}
	}
	return nil
}
