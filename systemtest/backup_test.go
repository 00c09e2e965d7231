package systemtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/testspeed"
)

const backupLimits = `
version: 1
namespaces:
  api:
    limits:
      user:  {rate: 10/h, burst: 10}
      daily: {limit: 100, per: 1d, window: calendar, ceiling: hard}
`

// TestBackup checks that a backup made while money moves between accounts is complete and
// consistent. It backs up three processes, kills them all and restores: a process that starts from
// the backup has all the data, and the sums are right. Truncated copies and copies with a changed
// byte are refused.
func TestBackup(t *testing.T) {
	testspeed.Full(t)
	t.Parallel() // mostly waits
	c := newServers(t, 8)
	c.run(backupLimits)
	c.apply(backupLimits + "      more: {rate: 1/s, burst: 5}\n")
	var all []fields
	for i := range 100 {
		all = append(all, in(key("api", "user", fmt.Sprintf("tenant%d", i)), "burst", 100+i))
	}
	if a, err := try(c.nodes[1], http.MethodPut, "/v1/overrides", fields{"overrides": all}); err != nil || a.code != 200 {
		t.Fatalf("%d %s, %v", a.code, a.body, err)
	}
	daily := key("api", "daily", "acme")
	take(t, c.nodes[0], daily, 30)
	b := openBank(t, c, 7)
	ctx, cancel := context.WithCancel(t.Context())
	b.open(ctx)
	time.Sleep(500 * time.Millisecond) // operations are in flight when the backup starts
	file := filepath.Join(c.dir, "monday.quorate")
	began := time.Now()
	for i := range 3 { // the restore uses the last one
		if _, msg, code := quorate(t, "backup", "--out", file, "--addr", c.nodes[i].grpc); code != 0 {
			t.Fatalf("backup: exit code %d\n%s", code, msg)
		}
	}
	took := time.Since(began) / 3
	cancel()
	b.judge() // the backup disturbed none of the operations
	for _, s := range c.nodes {
		s.kill()
	}

	table, msg, code := quorate(t, "backup", "verify", file)
	if code != 0 || !strings.Contains(table, "version 2: 3 limits") || !strings.Contains(table, "overrides  100") {
		t.Fatalf("verify: exit code %d\n%s%s", code, table, msg)
	}
	refuseDamaged(t, file)
	again := restored(t, file)
	st, err := again.status()
	if err != nil || st.Version != 2 {
		t.Errorf("limits version %d, %v; want 2", st.Version, err)
	}
	if out, msg, code := quorate(t, "overrides", "get", "api/user", "tenant77", "--addr", again.grpc, "-o", "json"); code != 0 || !strings.Contains(out, `"burst":177`) {
		t.Errorf("override: exit code %d, %s%s", code, out, msg)
	}
	sums(t, again)
	admitted := 0
	for range 300 {
		d := allow(t, again.httpAddr, daily)
		if d.Allowed {
			admitted++
		} else if d.Why == "over_limit" {
			break
		}
	}
	if admitted > 70 || admitted < 60 {
		t.Errorf("%d admitted after the restore and 30 before it; 100 a day", admitted)
	}
	st2, _ := os.Stat(file)
	t.Logf("a backup of %d bytes took %v; after the restore %d of 70 requests of a hard daily limit were admitted", st2.Size(), took.Round(time.Millisecond), admitted)
}

// refuseDamaged checks that verification refuses damaged copies of a backup.
func refuseDamaged(t *testing.T, file string) {
	t.Helper()
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 1))
	bad := filepath.Join(t.TempDir(), "bad.quorate")
	for i := range 20 {
		data := append([]byte{}, good...)
		what := ""
		if i%4 == 0 {
			data = data[:rng.IntN(len(data))]
			what = fmt.Sprintf("cut off at %d", len(data))
		} else {
			at := rng.IntN(len(data))
			data[at] ^= byte(1 + rng.IntN(255))
			what = fmt.Sprintf("byte %d changed", at)
		}
		if err := os.WriteFile(bad, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, msg, code := quorate(t, "backup", "verify", bad)
		if code != 1 || !strings.Contains(msg, bad+": at byte ") {
			t.Errorf("%s (seed %d): exit code %d, %s", what, seed, code, msg)
		}
	}
	dir := filepath.Join(t.TempDir(), "data")
	if _, msg, code := quorate(t, "restore", bad, "--data", dir, "--node", "n1", "--insecure"); code == 0 {
		t.Errorf("restored: %s", msg)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a refused restore has left a directory")
	}
}

// restored starts a node from a backup.
func restored(t *testing.T, file string) *server {
	t.Helper()
	c := newServers(t, 8)
	c.nodes = c.nodes[:1]
	dir := filepath.Join(c.dir, "n1")
	if _, msg, code := quorate(t, "restore", file, "--data", dir, "--node", "n1", "--insecure"); code != 0 {
		t.Fatalf("restore: exit code %d\n%s", code, msg)
	}
	if _, msg, code := quorate(t, "restore", file, "--data", dir, "--node", "n1", "--insecure"); code == 0 || !strings.Contains(msg, "empty directory") {
		t.Errorf("restored twice: exit code %d, %s", code, msg)
	}
	c.start(c.nodes[0])
	c.awaitReady(c.nodes[0], 15*time.Second)
	return c.nodes[0]
}

// sums checks that every group of the bank has the total that it began with.
func sums(t *testing.T, s *server) {
	t.Helper()
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b := &bank{t: t}
	for g := range bankGroups - cashGroups { // callers of the others deposit and withdraw
		req := &quoratev1.GetAccountsRequest{}
		for i := range perGroup {
			req.Accounts = append(req.Accounts, b.account(g, i))
		}
		eventually(t, 10*time.Second, "accounts are read", func() error {
			res, err := quoratev1.NewAccountServiceClient(conn).GetAccounts(t.Context(), req)
			sum := int64(0)
			for _, a := range res.GetAccounts() {
				sum += a.GetAccount().GetBalance()
			}
			if err == nil && sum != perGroup*opening {
				t.Errorf("group %d has %d in all, not %d", g, sum, perGroup*opening)
			}
			return err
		})
	}
}
