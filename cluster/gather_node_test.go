package cluster

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/audit"
	"github.com/quorate/quorate/internal/quota"
)

// TestGather checks that one node of a cluster has the events and audit entries of all, and names a
// node that has failed.
func TestGather(t *testing.T) {
	dir := t.TempDir()
	path := func(id quota.NodeID) string { return filepath.Join(dir, string(id)+".log") }
	c := newThreeNodes(t, 2, func(cfg *Config) { cfg.AuditLog = path(cfg.Self) })
	for _, id := range c.ids() {
		l, err := audit.Open(audit.Options{Path: path(id)})
		if err != nil {
			t.Fatal(err)
		}
		l.Write(audit.Entry{Node: string(id), Result: audit.OK})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	n1 := c.nodes["n1"]
	responses, _, stop := n1.WatchAll(quota.EventFilter{}, "", 0)
	defer stop()
	await := func(what string, enough func(r *quoratev1.WatchResponse) bool) {
		t.Helper()
		k := quota.Key{LimitName: quota.LimitName{Namespace: "no", Limit: "limit"}, Key: "k"}
		again := time.NewTicker(10 * time.Millisecond)
		defer again.Stop()
		for end := time.After(patience); ; {
			select {
			case r := <-responses:
				if enough(r) {
					return
				}
			case <-again.C:
				for _, n := range c.running() {
					n.Check(k, 1)
				}
			case <-end:
				t.Fatalf("%s: nothing came", what)
			}
		}
	}
	seen := map[string]bool{}
	await("events of all nodes", func(r *quoratev1.WatchResponse) bool {
		seen[r.Node] = seen[r.Node] || r.Event.GetKind() == quoratev1.EventKind_EVENT_KIND_BUCKET_MISS
		return seen["n1"] && seen["n2"] && seen["n3"]
	})
	list := func() (nodes, missing []string) {
		t.Helper()
		res, err := n1.ListAuditEntries(t.Context(), &quoratev1.ListAuditEntriesRequest{PageSize: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range res.Entries {
			nodes = append(nodes, e.Node)
		}
		for _, m := range res.MissingNodes {
			missing = append(missing, m.Node)
		}
		return nodes, missing
	}
	if nodes, missing := list(); !slices.Equal(nodes, []string{"n3", "n2", "n1"}) || missing != nil {
		t.Errorf("entries of %v, without %v", nodes, missing)
	}
	if err := c.nodes["n3"].Kill(); err != nil {
		t.Fatal(err)
	}
	delete(c.nodes, "n3")
	await("n3 is missing", func(r *quoratev1.WatchResponse) bool { return slices.Equal(r.MissingNodes, []string{"n3"}) })
	if nodes, missing := list(); !slices.Equal(nodes, []string{"n2", "n1"}) || !slices.Equal(missing, []string{"n3"}) {
		t.Errorf("n3 has failed: entries of %v, without %v", nodes, missing)
	}
}
