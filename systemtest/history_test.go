package systemtest

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
	"github.com/quorate/quorate/shard"
)

const historyLimits = `
version: 1
namespaces:
  api:
    limits:
      told: {rate: 100/s, burst: 100}
`

// historyAnswer is a part of quorate.v1.HistoryResponse.
type historyAnswer struct{ Points []historyPoint }

type historyPoint struct {
	Start     time.Time
	Attempted int64
	Admitted  int64
	Complete  bool
	Missing   []string
}

// recorded returns what a node reports about the seconds of a limit since from.
func recorded(s *server, l quota.LimitName, from int64) ([]historyPoint, error) {
	var a historyAnswer
	q := url.Values{"namespace": {l.Namespace}, "limit": {l.Limit}, "step": {"1s"}, "from": {time.Unix(from, 0).UTC().Format(time.RFC3339)}}
	err := get("http://"+s.httpAddr+"/v1/history?"+q.Encode(), &a)
	return a.Points, err
}

// demand counts the requests to one node, by the second of the answer.
type demand struct {
	mu                  sync.Mutex
	attempted, admitted map[int64]int64
	unknown             int64 // without an answer: may have been counted
}

// ask sends a request to one node every few milliseconds until stop is closed.
func (d *demand) ask(s *server, k quota.Key, every time.Duration, stop <-chan struct{}) {
	pause := every
	for {
		select {
		case <-stop:
			return
		case <-time.After(pause):
		}
		res, err := try(s, http.MethodPost, "/v1/allow", map[string]any{"namespace": k.Namespace, "limit": k.Limit, "key": k.Key})
		at := time.Now().Unix()
		d.mu.Lock()
		if err != nil {
			d.unknown++
			pause = 100 * time.Millisecond
		} else {
			d.attempted[at]++
			pause = every
		}
		if err == nil && res.code == http.StatusOK {
			d.admitted[at]++
		}
		d.mu.Unlock()
	}
}

// since returns what was attempted and admitted from that second on.
func (d *demand) since(from int64) (attempted, admitted int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at, n := range d.attempted {
		if at >= from {
			attempted, admitted = attempted+n, admitted+d.admitted[at]
		}
	}
	return attempted, admitted
}

// TestHistory checks that the history is complete after failures. Under load on three nodes it
// kills -9 the node that leads the limit's home range and restarts it; then it restarts all nodes
// in order, one after the other. Every node must report everything that was sent, except the killed
// process's part of the block in progress. That block must name the killed node, and no block may
// name another.
func TestHistory(t *testing.T) {
	testspeed.Full(t)
	t.Parallel() // mostly waits
	c := newServers(t, 8)
	c.run(historyLimits)
	name := quota.LimitName{Namespace: "api", Limit: "told"}
	home := shard.Of(quota.Key{LimitName: name}, c.ranges)
	leader := c.awaitReady(c.nodes[0], 10*time.Second).Ranges[home].Leader // the test kills it, and with it what it recorded of a key
	keys := append(c.keysLedBy(leader, name.String()), c.keysLedBy(c.others(c.node(leader))[0].id, name.String())...)
	began, stop := time.Now().Unix()-1, make(chan struct{})
	loads := map[string]*demand{}
	var wg sync.WaitGroup
	for i, s := range c.nodes {
		d := &demand{attempted: map[int64]int64{}, admitted: map[int64]int64{}}
		loads[s.id] = d
		wg.Go(func() { d.ask(s, keys[i%2], 5*time.Millisecond, stop) })
	}

	c.awaitTold(name, began)
	victim := c.node(c.awaitReady(c.nodes[0], 10*time.Second).Ranges[home].Leader)
	for time.Now().Unix()%10 < 4 { // the block before is complete: usage is counted up to two seconds later, on a busy machine more
		time.Sleep(100 * time.Millisecond)
	}
	block := time.Now().Unix() / 10 * 10
	victim.kill()
	lost, _ := loads[victim.id].since(block - 3)
	t.Logf("%s killed, which led range %d, where the history of %v is", victim.id, home, name)
	time.Sleep(2 * time.Second) // seconds of history without the victim
	c.start(victim)
	c.awaitReady(victim, 30*time.Second)
	time.Sleep(3 * time.Second) // seconds of history with it
	close(stop)
	wg.Wait()
	end := time.Now().Unix()
	for _, s := range c.nodes {
		s.interrupt(syscall.SIGTERM, 30*time.Second)
		c.start(s)
		c.awaitReady(s, 30*time.Second)
	}

	var sent, admitted, unknown int64
	for _, d := range loads {
		n, m := d.since(0)
		sent, admitted, unknown = sent+n, admitted+m, unknown+d.unknown
	}
	for _, s := range c.nodes {
		var got, gotAdmitted int64
		eventually(t, time.Minute, s.id+" tells all, and names "+victim.id+" alone", func() (err error) {
			var missing []string
			got, gotAdmitted, missing, err = summed(s, name, began, end)
			switch {
			case err != nil:
				return err
			case got > sent+unknown:
				t.Fatalf("%s: %d recorded, %d sent and %d not answered", s.id, got, sent, unknown)
			case !slices.Equal(missing, []string{victim.id}): // another node has not reported its part of the block in progress
				return fmt.Errorf("missing are %v", missing)
			}
			return nil
		})
		t.Logf("%s: recorded %d of %d sent (%+.2f %%), admitted %d of %d (%+.2f %%); %d can be lost by the kill, %d were not answered",
			s.id, got, sent, 100*(float64(got)/float64(sent)-1), gotAdmitted, admitted, 100*(float64(gotAdmitted)/float64(admitted)-1), lost, unknown)
		if got < sent-lost {
			t.Errorf("%s: %d recorded, %d sent, of which at most %d can be lost", s.id, got, sent, lost)
		}
		eventually(t, time.Minute, s.id+" knows whose it was", func() error { return attributed(t, s, name, began, got, sent+unknown) })
	}
}

// attributed returns an error unless a node attributes everything that was recorded to the two
// keys, except what it reports as unattributed: the killed process had not listed its last minute.
func attributed(t *testing.T, s *server, l quota.LimitName, from, recorded, most int64) error {
	var a struct {
		Keys []struct {
			Key       string
			Attempted int64
			Error     int64
		}
		Rest         int64
		Unattributed int64
	}
	q := url.Values{"namespace": {l.Namespace}, "limit": {l.Limit}, "from": {time.Unix(from, 0).UTC().Format(time.RFC3339)}}
	if err := get("http://"+s.httpAddr+"/v1/history/keys?"+q.Encode(), &a); err != nil {
		return err
	}
	sum := int64(0)
	for _, k := range a.Keys {
		sum += k.Attempted
	}
	switch {
	case sum > most:
		t.Fatalf("%s: keys have %d, asked for were %d", s.id, sum, most)
	case len(a.Keys) != 2 || sum+a.Unattributed < recorded:
		return fmt.Errorf("%d keys have %d, nobody %d; recorded are %d", len(a.Keys), sum, a.Unattributed, recorded)
	}
	t.Logf("%s: %d keys have %d of %d; at most %d are no key's", s.id, len(a.Keys), sum, recorded, a.Unattributed)
	return nil
}

// awaitTold waits for the middle of a block, with all earlier blocks reported and complete.
func (c *servers) awaitTold(l quota.LimitName, from int64) {
	c.t.Helper()
	eventually(c.t, time.Minute, "the block that is over is told", func() error {
		all, err := recorded(c.nodes[0], l, from)
		if err != nil || len(all) == 0 {
			return fmt.Errorf("%d points, %w", len(all), err)
		}
		last, now := all[len(all)-1], time.Now().Unix()
		if in := now % 10; last.Start.Unix()+1 != now-in || !last.Complete || in < 2 || in > 6 {
			return fmt.Errorf("%d s into a block; %v is the last, complete: %v", in, last.Start, last.Complete)
		}
		return nil
	})
}

// summed adds up what a node reports about the seconds up to end, and collects the nodes that are
// missing in any of them. It returns an error if the report does not reach that far.
func summed(s *server, l quota.LimitName, from, end int64) (attempted, admitted int64, missing []string, err error) {
	all, err := recorded(s, l, from)
	if err != nil {
		return 0, 0, nil, err
	}
	last := from
	for _, p := range all {
		attempted, admitted, last = attempted+p.Attempted, admitted+p.Admitted, p.Start.Unix()
		if !p.Complete && len(p.Missing) == 0 {
			return 0, 0, nil, fmt.Errorf("%v is not complete, and names nobody", p.Start)
		}
		if last <= end {
			missing = append(missing, p.Missing...)
		}
	}
	if last < end {
		return 0, 0, nil, fmt.Errorf("it reaches until %d, wanted is %d", last, end)
	}
	slices.Sort(missing)
	return attempted, admitted, slices.Compact(missing), nil
}
