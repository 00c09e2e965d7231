package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/cluster/accounts"
	"github.com/quorate/quorate/cluster/backup"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestBackupBank takes backups while units move between accounts of all ranges.
// Once pending transactions are finished, the sum is right in each backup, and it contains what
// was acknowledged before.
func TestBackupBank(t *testing.T) {
	testspeed.Full(t)
	const ranges, count, each = 8, 64, 1000
	c := newThreeNodes(t, ranges)
	var ids []account.ID
	var ops []account.Op
	for i := range count {
		ids = append(ids, accountIn(t, quota.RangeID(i%ranges), ranges, i))
		ops = append(ops, create(ids[i], each))
	}
	mustApply(t, c.nodes["n1"], "", ops...)
	for _, n := range c.running() { // copy the ranges at very different moments
		n.backups.SlowDown(func(uint32) { time.Sleep(rand.N(40 * time.Millisecond)) })
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var moved, lost atomic.Int64
	var wg sync.WaitGroup
	for w := range 6 {
		n := c.running()[w%3]
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 5))
			for i := 0; ctx.Err() == nil; i++ {
				at := rng.Perm(count)[:2]
				ops := []account.Op{deposit(ids[at[0]], -3), deposit(ids[at[1]], 3)}
				call, done := context.WithTimeout(t.Context(), patience)
				out, err := n.ApplyOps(call, account.Caller{By: "me"}, fmt.Sprintf("w%d-%d", w, i), 0, ops)
				done()
				switch {
				case err != nil:
					t.Log(err)
					lost.Add(1)
				case out.Code == account.Done || out.Code == account.Repeated:
					moved.Add(1)
				}
			}
		})
	}
	mark := accountID("mark")
	mustApply(t, c.nodes["n2"], "", create(mark, 0))
	open := 0
	for i := range 12 {
		mustApply(t, c.nodes["n2"], "", deposit(mark, 1))
		data := backupOf(t, c.running()[i%3])
		stores := storesOf(t, data)
		for _, s := range stores {
			open += s.Stats().Transactions
		}
		settle(stores)
		got := func(id account.ID) int64 {
			return stores[accounts.RangeOf(id, ranges)].View().Get(c.nodes["n1"].clock.Now(), id).Balance
		}
		sum := int64(0)
		for _, id := range ids {
			sum += got(id)
		}
		if sum != count*each {
			t.Errorf("backup %d: %d in all, not %d", i, sum, count*each)
		}
		if got(mark) != int64(i+1) {
			t.Errorf("backup %d: %d was acknowledged before, it has %d", i, i+1, got(mark))
		}
	}
	before := moved.Load()
	c.eventually(20*time.Second, "transfers go on", func() error {
		if moved.Load() < before+20 {
			return errors.New("not yet")
		}
		return nil
	})
	cancel()
	wg.Wait()
	if lost.Load() > 0 {
		t.Errorf("%d transfers failed", lost.Load())
	}
	t.Logf("%d transfers; %d parts of transactions were under way in 12 backups", moved.Load(), open)
}

func backupOf(t testing.TB, n *Node) []byte {
	t.Helper()
	for end := time.Now().Add(2 * patience); ; {
		var out bytes.Buffer
		err := n.Backup(t.Context(), &out, func(int, int) {})
		if err == nil {
			return out.Bytes()
		}
		// On a busy machine there may be no moment at which all groups stop in time.
		if none := (*quota.NoLeaderError)(nil); !errors.As(err, &none) || time.Now().After(end) {
			t.Fatalf("backup on %s: %v", n.cfg.Self, err)
		}
	}
}

// storesOf returns the accounts of the ranges in a backup.
func storesOf(t testing.TB, data []byte) (out []*accounts.Replica) {
	t.Helper()
	in, err := backup.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for {
		g, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if g.Name == raftgroup.GroupName(raftgroup.MetaGroup) {
			continue
		}
		f := replica.NewMachine(func() time.Duration { return 0 })
		if err := f.Restore(in); err != nil {
			t.Fatal(err)
		}
		out = append(out, f.Accounts)
	}
}

// settle finishes pending transactions as the leaders of ranges do: it aborts those that their home
// has not decided.
func settle(stores []*accounts.Replica) {
	for _, s := range stores {
		for _, p := range s.View().Pending(10_000) {
			if p.AtHome && p.Decided {
				continue
			}
			d, _ := stores[p.Tx.Home].View().Decision(p.Tx.ID)
			end := account.Command{Finish: &account.Finish{Tx: p.Tx.ID, Commit: d.Decided && d.Commit}}
			if p.AtHome {
				end = account.Command{Decide: &account.Decide{Tx: p.Tx.ID}}
			}
			batch, err := account.EncodeBatch(p.Since, []account.Command{end})
			if err != nil {
				panic(err)
			}
			s.Apply(batch)
		}
	}
}

// TestRestore restores a backup that was taken during transfers. Everything is there,
// except the members of the old cluster.
func TestRestore(t *testing.T) {
	testspeed.Full(t)
	const ranges, count, each = 4, 12, 1000
	c := newThreeNodes(t, ranges)
	c.apply(limit("a", 10, quota.Hard), limit("b", 20, quota.Soft))
	c.apply(limit("a", 10, quota.Hard), limit("b", 21, quota.Soft))
	n := c.nodes["n1"]
	k := quota.Key{LimitName: limit("a", 10, quota.Hard).LimitName, Key: "x"}
	if err := n.SetOverrides(t.Context(), []quota.Override{{Key: k, Burst: 77}}); err != nil {
		t.Fatal(err)
	}
	var ids []account.ID
	var ops []account.Op
	for i := range count {
		ids = append(ids, accountIn(t, quota.RangeID(i%ranges), ranges, i))
		ops = append(ops, create(ids[i], each))
	}
	mustApply(t, n, "first", ops...)
	for _, n := range c.running() {
		n.backups.SlowDown(func(uint32) { time.Sleep(rand.N(30 * time.Millisecond)) }) // copy groups at different moments
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := w; ctx.Err() == nil; i++ {
				_, _ = c.nodes["n2"].ApplyOps(t.Context(), account.Caller{By: "me"}, "", 0, []account.Op{deposit(ids[i%count], -7), deposit(ids[(i+1)%count], 7)})
			}
		})
	}
	time.Sleep(200 * time.Millisecond) // load before the backup
	path := filepath.Join(t.TempDir(), "backup")
	data := backupOf(t, n)
	cancel()
	wg.Wait()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	old := c.nodes["n1"].Limits().Version
	c.stop()

	open := func() (io.ReadCloser, error) { return os.Open(path) }
	r := &threeNodes{t: t, ranges: ranges, dir: t.TempDir(), addrs: map[quota.NodeID]string{"new": "127.0.0.1:0"}, nodes: map[quota.NodeID]*Node{}}
	dir := filepath.Join(r.dir, "new")
	content, err := backup.Restore(open, backup.RestoreConfig{Dir: dir, Node: "new", Cluster: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Restore(open, backup.RestoreConfig{Dir: dir, Node: "new"}); err == nil || !strings.Contains(err.Error(), "an empty directory") {
		t.Errorf("into a directory in use: %v", err)
	}
	total := 0
	for _, g := range content.Ranges {
		total += g.Accounts
	}
	if content.Meta.LimitsVersion != old || content.Meta.Versions != int(old) || content.Meta.Overrides != 1 || total != count {
		t.Errorf("%+v, %d accounts", content.Meta, total)
	}
	cfg := r.config("new", nil)
	cfg.Replicas = 1
	if r.nodes["new"], err = Start(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.end)
	r.awaitReady(15 * time.Second)
	again := r.nodes["new"]
	if again.Limits().Version != old {
		t.Errorf("limits have version %d, not %d", again.Limits().Version, old)
	}
	if o := again.Override(k); o == nil || o.Burst != 77 {
		t.Errorf("override %+v", o)
	}
	r.eventually(15*time.Second, "nothing is under way", r.nothingPending)
	sum := int64(0)
	for _, b := range balances(t, again, false, ids...) {
		sum += b
	}
	if sum != count*each {
		t.Errorf("%d in all, not %d", sum, count*each)
	}
	if out := mustApply(t, again, "first", ops...); out.Code != account.Repeated {
		t.Errorf("a request id is forgotten: %+v", out)
	}
	if ids := again.members.View().IDs; len(ids) != 1 || ids[0] != "new" {
		t.Errorf("members %v", ids)
	}
}
