package systemtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// amounts describes a limit to the reference ledger. None of the limits refills.
type amounts struct {
	bursts   []int64 // per tier
	parent   string
	floor    int64
	most     int64 // largest cost of a request; 0 means whatever fits
	shadow   bool
	keyParts int // components of a key, for the limit and its parents
}

// amountsYAML is amountsOf as a limit file.
const amountsYAML = `
version: 1
namespaces:
  p:
    limits:
      parent: {rate: 0/s, burst: 30}
      floor: {rate: 0/s, burst: 10, parent: parent, floor: {rate: 0/s, burst: 3}}
      top: {rate: 0/s, burst: 40}
      middle: {rate: 0/s, burst: 25, parent: top}
      leaf: {rate: 0/s, burst: 9, parent: middle}
      tiers: {tiers: [{rate: 0/s, burst: 7}, {limit: 12, per: 366d}, {limit: 9, per: 366d, window: periodic}]}
      hard: {rate: 0/s, burst: 11, ceiling: hard}
      hardleaf: {rate: 0/s, burst: 8, parent: hard, ceiling: hard}
      leader: {rate: 0/s, burst: 11, ceiling: hard, decide: leader}
      shadow: {rate: 0/s, burst: 5, enforcement: shadow}
      costs: {rate: 0/s, burst: 20, max_cost: 6}
      periodic: {limit: 6, per: 366d, window: periodic}
      wide: {limit: 4398046511104, per: 366d}
      large: {rate: 0/s, burst: 1000}
      largewindow: {limit: 1000, per: 366d}
`

var amountsOf = map[string]amounts{
	"parent": {bursts: []int64{30}}, "floor": {bursts: []int64{10}, parent: "parent", floor: 3, keyParts: 2},
	"top": {bursts: []int64{40}}, "middle": {bursts: []int64{25}, parent: "top", keyParts: 2}, "leaf": {bursts: []int64{9}, parent: "middle", keyParts: 3},
	"tiers": {bursts: []int64{7, 12, 9}}, "hard": {bursts: []int64{11}}, "hardleaf": {bursts: []int64{8}, parent: "hard", keyParts: 2},
	"leader": {bursts: []int64{11}}, "shadow": {bursts: []int64{5}, shadow: true}, "costs": {bursts: []int64{20}, most: 6}, "periodic": {bursts: []int64{6}},
	"wide": {bursts: []int64{1 << 42}}, "large": {bursts: []int64{1000}}, "largewindow": {bursts: []int64{1000}},
}

// ledger is the reference implementation: what remains of each tier of a key, and of its floor.
type ledger map[[2]string][]int64

func (l ledger) left(limit, key string) []int64 {
	at := [2]string{limit, key}
	if l[at] == nil {
		l[at] = append(slices.Clone(amountsOf[limit].bursts), amountsOf[limit].floor)
	}
	return l[at]
}

// ask decides a request and charges it if it passes. A cost of 0 checks for 1 and charges nothing.
// remains is the least that the limit and its parents then have left.
func (l ledger) ask(limit, key string, cost int64) (allowed bool, remains int64) {
	asked := max(cost, 1)
	a := amountsOf[limit]
	allowed = a.most == 0 || asked <= a.most
	own := l.left(limit, key)
	floor := &own[len(own)-1]
	var all [][]int64
	for name, k := limit, key; name != ""; name = amountsOf[name].parent {
		left := l.left(name, k)
		left = left[:len(left)-1]
		if slices.Min(left) < asked && (name == limit || *floor < asked) {
			allowed = false
		}
		all = append(all, left)
		if i := strings.LastIndexByte(k, '/'); i >= 0 {
			k = k[:i]
		}
	}
	remains = 1 << 42
	for _, left := range all {
		for i := range left {
			if allowed {
				left[i] -= cost
			}
			remains = min(remains, left[i])
		}
	}
	if allowed && *floor >= asked { // a cost above the floor's remainder is charged to the parents alone
		*floor -= cost
	}
	return allowed, remains
}

// TestDecisionsOfOneNode checks one node against the ledger: for requests of random costs, and
// limits of every form that does not refill, the node decides exactly as the ledger, which knows
// only the limits.
func TestDecisionsOfOneNode(t *testing.T) {
	needBinary(t)
	base, file := freeBase(t), filepath.Join(t.TempDir(), "limits.yaml")
	write(t, file, amountsYAML)
	startDev(t, base, t.TempDir(), "--nodes", "1", "--ranges", "4", "--limits", file)
	s := &server{id: "dev", httpAddr: fmt.Sprintf("127.0.0.1:%d", base+11)}
	names := []string{"floor", "floor", "leaf", "leaf", "large", "large", "large", "large", "largewindow", "largewindow"}
	for name := range amountsOf {
		names = append(names, name)
	}
	slices.Sort(names)
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 1))
		one := func(of string) string { return of[rng.IntN(len(of)):][:1] }
		reference := ledger{}
		for step := range 500 {
			limit := names[rng.IntN(len(names))]
			a := amountsOf[limit]
			key := strconv.FormatUint(seed, 10) + one("ab")
			for range a.keyParts - 1 {
				key += "/" + one("xyz")
			}
			costs := []int64{0, 1, 1, 1, 2, 3, 5, 7, 13, 1e9, 1 << 42}
			if strings.HasPrefix(limit, "large") {
				costs = []int64{0, 1, 1, 10, 30, 40, 90, 150, 300, 1001}
			}
			cost := costs[rng.IntN(len(costs))]
			want, remains := reference.ask(limit, key, cost)
			var got answer
			eventually(t, 5*time.Second, "it is decided", func() error {
				got = post(t, s, "/v1/allow", map[string]any{"namespace": "p", "limit": limit, "key": key, "cost": cost})
				if got.Why == "not_held" { // the next grant decides
					return errors.New(got.body)
				}
				return nil
			})
			passed := got.Allowed && !got.Shadow
			if passed != want || got.Allowed != (want || a.shadow) || (got.code == http.StatusOK) != got.Allowed || want && a.floor == 0 && got.Remaining != remains {
				t.Fatalf("seed %d, step %d: %s of %s, cost %d: %s; want allowed %v, %d remaining", seed, step, key, limit, cost, got.body, want, remains)
			}
		}
	}
}
