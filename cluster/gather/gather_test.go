package gather

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/peercall"
	"github.com/quorate/quorate/internal/audit"
	"github.com/quorate/quorate/internal/events"
	"github.com/quorate/quorate/internal/quota"
)

// network is a cluster of nodes that call each other in memory.
type network struct {
	mu      sync.Mutex
	members []quota.NodeID
	nodes   map[quota.NodeID]*fakeNode
	cut     map[quota.NodeID]bool
}

type fakeNode struct {
	events.Hub
	net   *network
	id    quota.NodeID
	calls peercall.Table
	*Service
}

func newNetwork(t *testing.T, auditPath func(id quota.NodeID) string, ids ...quota.NodeID) *network {
	net := &network{members: ids, nodes: map[quota.NodeID]*fakeNode{}, cut: map[quota.NodeID]bool{}}
	for _, id := range ids {
		n := &fakeNode{net: net, id: id, calls: peercall.Table{}}
		n.Service = New(Config{Self: id, AuditPath: auditPath(id)}, n)
		n.AddCalls(n.calls)
		net.nodes[id] = n
		t.Cleanup(n.Close)
	}
	return net
}

func noAudit(quota.NodeID) string { return "" }

func (n *fakeNode) Members() []quota.NodeID {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	return slices.Clone(n.net.members)
}

func (n *fakeNode) Call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error) {
	n.net.mu.Lock()
	cut, peer := n.net.cut[to], n.net.nodes[to]
	n.net.mu.Unlock()
	if cut {
		return nil, errors.New("not connected")
	}
	return peer.calls.Answer(ctx, n.id, c)
}

func (net *network) set(change func()) {
	net.mu.Lock()
	defer net.mu.Unlock()
	change()
}

func event(at time.Duration, key string) quota.Event {
	return quota.Event{At: quota.Time(at), Kind: quota.EventRefused, Key: quota.Key{LimitName: quota.LimitName{Namespace: "web", Limit: "login"}, Key: key}}
}

// read returns the events that are there, as node:key, and the missing nodes as the last response has
// them.
func read(from <-chan *quoratev1.WatchResponse) (got []string, missing []string) {
	synctest.Wait()
	for {
		select {
		case r := <-from:
			if missing = r.MissingNodes; r.Event != nil {
				got = append(got, r.Node+":"+r.Event.Key)
			}
		default:
			return got, missing
		}
	}
}

// TestEventsOfAllNodes checks that the events of all nodes arrive in the order of their times, that
// a watch of one node has only that node's, and that stop ends the watches of the other nodes.
func TestEventsOfAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newNetwork(t, noAudit, "n1", "n2", "n3")
		all, _, stop := net.nodes["n1"].WatchAll(quota.EventFilter{Namespace: "web"}, "", 0)
		one, _, stopOne := net.nodes["n1"].WatchAll(quota.EventFilter{Key: "a"}, "n2", 0)
		self, _, stopSelf := net.nodes["n1"].WatchAll(quota.EventFilter{}, "n1", 0)
		synctest.Wait()
		net.nodes["n3"].Publish(event(3*time.Second, "c"))
		net.nodes["n2"].Publish(event(2*time.Second, "b"))
		net.nodes["n1"].Publish(event(4*time.Second, "d"))
		net.nodes["n2"].Publish(event(time.Second, "a"))
		if got, _ := read(self); !slices.Equal(got, []string{"n1:d"}) {
			t.Errorf("this node, without a delay: %v", got)
		}
		time.Sleep(mergeTime)
		if got, missing := read(all); !slices.Equal(got, []string{"n2:a", "n2:b", "n3:c", "n1:d"}) || missing != nil {
			t.Errorf("all nodes: %v, without %v", got, missing)
		}
		if got, _ := read(one); !slices.Equal(got, []string{"n2:a"}) {
			t.Errorf("one node: %v", got)
		}
		stop()
		stopOne()
		stopSelf()
		time.Sleep(2 * pollTime)
		for id, n := range net.nodes {
			n.mu.Lock()
			if n.Watched() || len(n.watches) > 0 || n.room != 0 {
				t.Errorf("%s is still watched: %d watches with room for %d events", id, len(n.watches), n.room)
			}
			n.mu.Unlock()
		}
	})
}

// TestEventsMissing checks that a watch names the nodes that do not answer, in a response without an
// event if necessary, and follows the membership.
func TestEventsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newNetwork(t, noAudit, "n1", "n2", "n3")
		net.cut["n3"] = true
		all, _, stop := net.nodes["n1"].WatchAll(quota.EventFilter{}, "", 0)
		defer stop()
		if got, missing := read(all); got != nil || !slices.Equal(missing, []string{"n3"}) {
			t.Errorf("%v, without %v; want n3 to be missing", got, missing)
		}
		net.nodes["n2"].Publish(event(1, "a"))
		time.Sleep(mergeTime)
		if got, missing := read(all); len(got) != 1 || !slices.Equal(missing, []string{"n3"}) {
			t.Errorf("%v, without %v; want one event, and n3 to be missing", got, missing)
		}
		net.set(func() { net.cut["n3"] = false })
		time.Sleep(retryTime + pollTime)
		net.nodes["n3"].Publish(event(1, "b"))
		time.Sleep(mergeTime)
		if got, missing := read(all); !slices.Equal(got, []string{"n3:b"}) || missing != nil {
			t.Errorf("%v, without %v; want n3 to be back", got, missing)
		}
		net.set(func() { net.cut["n2"], net.members = true, []quota.NodeID{"n1", "n3"} })
		time.Sleep(3 * pollTime)
		net.nodes["n1"].Publish(event(1, "c"))
		time.Sleep(mergeTime)
		if got, missing := read(all); !slices.Equal(got, []string{"n1:c"}) || missing != nil {
			t.Errorf("%v, without %v; n2 has left, and is not missing", got, missing)
		}
	})
}

// TestEventsOfSlowReader checks that a node buffers no more than the watch allows, counts the rest as
// lost, and ends a watch that nothing asks for.
func TestEventsOfSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newNetwork(t, noAudit, "n1", "n2")
		n2 := net.nodes["n2"]
		ask := &peerv1.CallEvents{Watch: 7}
		if _, err := n2.answerEvents(t.Context(), "n1", ask); err != nil {
			t.Fatal(err)
		}
		const extra = 10
		for i := range events.DefaultBuffer + extra {
			n2.Publish(event(time.Duration(i), strconv.Itoa(i)))
		}
		total := 0
		for range events.DefaultBuffer / maxAnswer {
			res, err := n2.answerEvents(t.Context(), "n1", ask)
			if err != nil || len(res.Events) > maxAnswer || res.Lost != extra {
				t.Fatalf("%d events, %d lost, %v", len(res.GetEvents()), res.GetLost(), err)
			}
			total += len(res.Events)
		}
		if total != events.DefaultBuffer {
			t.Errorf("%d events; want %d", total, events.DefaultBuffer)
		}
		time.Sleep(watchIdle + 1)
		synctest.Wait()
		n2.mu.Lock()
		defer n2.mu.Unlock()
		if n2.Watched() || n2.room != 0 {
			t.Error("the watch has not ended")
		}
	})
}

// TestWatchesAreBounded checks the bounds of the watches of other nodes: their number and the events
// in their buffers.
func TestWatchesAreBounded(t *testing.T) {
	net := newNetwork(t, noAudit, "n1", "n2")
	n2 := net.nodes["n2"]
	for i := range uint64(maxWatches) {
		if _, err := n2.watchOf(watchID{"n1", i}, &peerv1.CallEvents{}); err != nil {
			t.Fatal(i, err)
		}
	}
	if _, err := n2.watchOf(watchID{"n1", maxWatches}, &peerv1.CallEvents{}); !errors.Is(err, errTooMany) || n2.room > maxRoom {
		t.Errorf("%v; room for %d events", err, n2.room)
	}
}

// writeLog writes entries to the audit log of a node; seconds are their times.
func writeLog(t *testing.T, dir string, id quota.NodeID, seconds ...int) {
	t.Helper()
	var now time.Time
	l, err := audit.Open(audit.Options{Path: filepath.Join(dir, string(id)+".log"), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range seconds {
		now = time.Unix(1_800_000_000+int64(s), 0)
		l.Write(audit.Entry{Node: string(id), Identity: "client:CI", Method: "/quorate.v1.LimitService/ApplyLimits", What: strconv.Itoa(s), Result: audit.OK})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// pages returns the entries of all pages, as seconds, and the nodes missing on the last one.
func pages(t *testing.T, n *fakeNode, req *quoratev1.ListAuditEntriesRequest) (got []string, missing []string) {
	t.Helper()
	for range 100 {
		res, err := n.ListAuditEntries(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Entries) > int(req.PageSize) {
			t.Errorf("%d entries; at most %d", len(res.Entries), req.PageSize)
		}
		for _, e := range res.Entries {
			got = append(got, e.What)
		}
		missing = nil
		for _, m := range res.MissingNodes {
			missing = append(missing, m.Node+": "+m.Reason)
		}
		if req.PageToken = res.NextPageToken; req.PageToken == "" {
			return got, missing
		}
	}
	t.Fatal("the pages do not end")
	return nil, nil
}

// TestAuditOfAllNodes checks that pages of any size merge the logs of all nodes by time without gaps
// and repeats, filters, and the nodes that are missing.
func TestAuditOfAllNodes(t *testing.T) {
	dir := t.TempDir()
	writeLog(t, dir, "n1", 1, 4, 5, 9)
	writeLog(t, dir, "n2", 2, 3, 10, 11)
	writeLog(t, dir, "n3", 6)
	net := newNetwork(t, func(id quota.NodeID) string { return filepath.Join(dir, string(id)+".log") }, "n1", "n2", "n3")
	n1 := net.nodes["n1"]
	const all = "11 10 9 6 5 4 3 2 1"
	for size := int32(1); size <= 10; size++ {
		if got, missing := pages(t, n1, &quoratev1.ListAuditEntriesRequest{PageSize: size}); strings.Join(got, " ") != all || missing != nil {
			t.Errorf("pages of %d: %v, without %v; want %s", size, got, missing, all)
		}
	}
	since := time.Unix(1_800_000_005, 0)
	for _, c := range []struct {
		req  *quoratev1.ListAuditEntriesRequest
		want string
	}{
		{&quoratev1.ListAuditEntriesRequest{Node: "n2"}, "11 10 3 2"},
		{&quoratev1.ListAuditEntriesRequest{Identity: "client:ci", Methods: []string{"x", "applylimits"}, Result: "ok"}, all},
		{&quoratev1.ListAuditEntriesRequest{Identity: "other"}, ""},
		{&quoratev1.ListAuditEntriesRequest{Methods: []string{"x"}}, ""},
		{&quoratev1.ListAuditEntriesRequest{Result: "denied"}, ""},
		{&quoratev1.ListAuditEntriesRequest{Text: "1"}, "11 10 1"},
		{&quoratev1.ListAuditEntriesRequest{Since: timestamppb.New(since)}, "11 10 9 6 5"},
	} {
		c.req.PageSize = 2
		if got, _ := pages(t, n1, c.req); strings.Join(got, " ") != c.want {
			t.Errorf("%v: %v; want %s", c.req, got, c.want)
		}
	}
	first, err := n1.ListAuditEntries(t.Context(), &quoratev1.ListAuditEntriesRequest{PageSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	net.cut["n2"] = true
	got, missing := pages(t, n1, &quoratev1.ListAuditEntriesRequest{PageSize: 1, PageToken: first.NextPageToken})
	if strings.Join(got, " ") != "9 6 5 4 1" || !slices.Equal(missing, []string{"n2: did not answer an earlier page"}) {
		t.Errorf("n2 has failed: %v, without %v", got, missing)
	}
	if _, err := n1.ListAuditEntries(t.Context(), &quoratev1.ListAuditEntriesRequest{PageSize: 1, PageToken: "!"}); err == nil || !strings.Contains(err.Error(), "page_token") {
		t.Error(err)
	}
	alone := newNetwork(t, noAudit, "n1")
	if got, missing := pages(t, alone.nodes["n1"], &quoratev1.ListAuditEntriesRequest{PageSize: 1}); got != nil || !slices.Equal(missing, []string{"n1: the node keeps no audit log"}) {
		t.Errorf("no log: %v, without %v", got, missing)
	}
}

// TestAuditOfManyMissing checks a page for which some nodes have missed an earlier one, while others do not
// answer now.
func TestAuditOfManyMissing(t *testing.T) {
	var ids []quota.NodeID
	places := map[string]string{}
	for i := range 40 {
		id := quota.NodeID(fmt.Sprint("n", i))
		ids = append(ids, id)
		if places[string(id)] = ""; i%2 == 1 {
			places[string(id)] = missed
		}
	}
	net := newNetwork(t, noAudit, ids...)
	res, err := net.nodes["n0"].ListAuditEntries(t.Context(), &quoratev1.ListAuditEntriesRequest{PageSize: 1, PageToken: tokenOf(places)})
	if err != nil || len(res.GetMissingNodes()) != len(ids) {
		t.Errorf("%d of %d nodes are missing; %v", len(res.GetMissingNodes()), len(ids), err)
	}
}
