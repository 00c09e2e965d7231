package systemtest

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// startDev runs quorate dev until it reports that it is up. Its temporary directory is inside tmp.
func startDev(t *testing.T, base int, tmp string, args ...string) *process {
	t.Helper()
	p := start(t, []string{"env", "TMPDIR=" + tmp}, append([]string{"dev", "--base-port", strconv.Itoa(base)}, args...)...)
	eventually(t, time.Minute, "dev is up", func() error {
		select {
		case <-p.ended:
			t.Fatalf("dev ended: %v\n%s", p.err, &p.stderr)
		default:
		}
		if out := p.stdout.String(); !strings.Contains(out, "Ctrl-C stops the cluster") {
			return fmt.Errorf("it printed %q", out)
		}
		return nil
	})
	return p
}

// TestDev checks that quorate dev starts three nodes that share the default limits over HTTP and
// gRPC, refuses a taken port with its number, and leaves no temporary directory after Ctrl-C.
func TestDev(t *testing.T) {
	needBinary(t)
	base, tmp := freeBase(t), t.TempDir()
	p := startDev(t, base, tmp)
	out := p.stdout.String()
	for k := 1; k <= 3; k++ {
		row := fmt.Sprintf(`(?m)^n%d +127\.0\.0\.1:%d +127\.0\.0\.1:%d +127\.0\.0\.1:%d +\d`, k, base+10*k+1, base+10*k+2, base+10*k+3)
		if ok, _ := regexp.MatchString(row, out); !ok {
			t.Errorf("no row %s in\n%s", row, out)
		}
	}
	if !strings.Contains(out, "All 16 ranges have leaders. Limits: 6") {
		t.Errorf("no summary in\n%s", out)
	}
	k := quota.Key{LimitName: quota.LimitName{Namespace: "web", Limit: "login"}, Key: "somebody"} // 5/m, burst 5, hard
	for i := range 4 {
		take(t, &server{id: "dev", httpAddr: fmt.Sprintf("127.0.0.1:%d", base+10*(i%3+1)+1)}, k, 1)
	}
	q, err := client.New(t.Context(), []string{fmt.Sprintf("127.0.0.1:%d", base+22)}, client.WithMode(client.Remote))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	eventuallyEvery(t, 250*time.Millisecond, 3*time.Second, "the fifth is admitted over gRPC", func() error {
		res, err := q.Allow(t.Context(), k.Namespace, k.LimitName.Limit, k.Key, 1)
		if err != nil || !res.Limit.Hard || res.Limit.Rate != "5/m" {
			t.Fatalf("over gRPC: %+v, %v", res, err)
		}
		if !res.Allowed {
			return fmt.Errorf("%+v", res)
		}
		return nil
	})
	if d := allow(t, fmt.Sprintf("127.0.0.1:%d", base+31), k); d.Allowed || d.code != 429 || d.RetryAfter <= 0 {
		t.Errorf("the sixth request: %+v", d)
	}
	eventually(t, 3*time.Second, "a line of rates", func() error {
		if out := p.stdout.String(); !strings.Contains(out, "top web/login/somebody") {
			allow(t, fmt.Sprintf("127.0.0.1:%d", base+11), k)
			return fmt.Errorf("it printed %s", out)
		}
		return nil
	})

	t.Run("taken port", func(t *testing.T) {
		began := time.Now()
		_, msg, code := quorate(t, "dev", "--base-port", strconv.Itoa(base))
		want := fmt.Sprintf("HTTP port 127.0.0.1:%d is taken by another process", base+11)
		if code != 1 || !strings.Contains(msg, want) || !strings.Contains(msg, "--base-port") {
			t.Errorf("exit code %d, message %q; want %q", code, msg, want)
		}
		if took := time.Since(began); took > leastPatience/2 {
			t.Errorf("that took %v", took)
		}
	})
	t.Run("last port taken", func(t *testing.T) {
		other := freeBase(t)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", other+33))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, msg, code := quorate(t, "dev", "--base-port", strconv.Itoa(other))
		if code != 1 || !strings.Contains(msg, fmt.Sprintf("peer port 127.0.0.1:%d is taken", other+33)) {
			t.Errorf("exit code %d, message %q", code, msg)
		}
	})

	dirs, err := filepath.Glob(filepath.Join(tmp, "quorate-dev-*"))
	if err != nil || len(dirs) != 1 {
		t.Errorf("temporary directories: %v, %v", dirs, err)
	}
	took, code := p.interrupt(syscall.SIGINT, leastPatience)
	t.Logf("Ctrl-C: ended after %v", took.Round(time.Millisecond))
	if code != 0 {
		t.Errorf("exit code %d after %v; want 0", code, took)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", dir, err)
		}
	}
}

// TestDevData checks that a restart with --data keeps limits and counts.
func TestDevData(t *testing.T) {
	testspeed.Full(t)
	needBinary(t)
	base, data := freeBase(t), filepath.Join(t.TempDir(), "data")
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, limits, "version: 1\nnamespaces:\n  web:\n    limits:\n      slow: {rate: 5/h, burst: 2, ceiling: hard}\n")
	k := quota.Key{LimitName: quota.LimitName{Namespace: "web", Limit: "slow"}, Key: "k"}
	addr := fmt.Sprintf("127.0.0.1:%d", base+11)
	for start := range 2 {
		p := startDev(t, base, t.TempDir(), "--data", data, "--limits", limits, "--ranges", "4")
		if start == 0 {
			take(t, &server{id: "n1", httpAddr: addr}, k, 2)
			time.Sleep(200 * time.Millisecond) // at least one report
		}
		if d := allow(t, addr, k); d.Allowed || d.code != 429 {
			t.Errorf("start %d: used up, but %+v", start, d)
		}
		if took, code := p.interrupt(syscall.SIGTERM, leastPatience); code != 0 {
			t.Errorf("exit code %d after %v", code, took)
		}
	}
}

// TestReplay replays the example log against a cluster, for a soft and a hard limit, and checks how
// much is admitted. The bounds are wide: at 20,000 times the speed, the third of a second by which
// a busy machine may be late is two hours of the log.
func TestReplay(t *testing.T) {
	testspeed.Full(t)
	needBinary(t)
	base := freeBase(t)
	startDev(t, base, t.TempDir(), "--quiet")
	for _, ceiling := range []string{"soft", "hard"} {
		limits := filepath.Join(t.TempDir(), "limits.yaml")
		write(t, limits, fmt.Sprintf("version: 1\nnamespaces:\n  web:\n    limits:\n      per_client: {rate: 10/s, burst: 20, ceiling: %s}\n", ceiling))
		for _, skew := range []string{"even", "90/5/5"} {
			for speed := 20000; !replay(t, base, limits, ceiling, skew, speed, speed < 400); speed /= 2 {
				time.Sleep(2 * time.Second) // until the buckets are full again
			}
		}
	}
}

// replay replays the log. It returns false if far too little was admitted, as happens on a starved
// machine; the caller then retries at half the speed, which needs less CPU. On the last attempt
// this is an error.
func replay(t *testing.T, base int, limits, ceiling, skew string, speed int, last bool) bool {
	t.Helper()
	out, msg, code := quorate(t, "replay", "--log", "../examples/access.log", "--limits", limits, "--limit", "web/per_client",
		"--key", "ip", "--speed", strconv.Itoa(speed), "--skew", skew, "--base-port", strconv.Itoa(base), "-o", "json")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, msg)
	}
	var r struct {
		Requests, Admitted, Refused, Errors *int64
		Ideal                               int64    `json:"ideal_admitted"`
		OverPct                             *float64 `json:"over_pct"`
		UnderPct                            *float64 `json:"under_pct"`
		KeysOver                            *int64   `json:"keys_over_tokens"`
		KeysUnder                           int64    `json:"keys_under_tokens"`
		WorstExcess                         int64    `json:"worst_excess_tokens"`
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if r.Requests == nil || r.Admitted == nil || r.Refused == nil || r.Errors == nil || r.OverPct == nil || r.UnderPct == nil || r.KeysOver == nil {
		t.Fatalf("fields are missing in\n%s", out)
	}
	t.Logf("%s, %s: %d requests, admitted %d, refused %d, ideal %d; over %.2f %%, under %.2f %%; keys over %d, under %d; worst excess %d",
		ceiling, skew, *r.Requests, *r.Admitted, *r.Refused, r.Ideal, *r.OverPct, *r.UnderPct, *r.KeysOver, r.KeysUnder, r.WorstExcess)
	if *r.Requests != 1500 || *r.Errors != 0 || *r.Admitted+*r.Refused != 1500 {
		t.Errorf("%s, %s: not all of the 1500 requests were decided", ceiling, skew)
	}
	if *r.Admitted < r.Ideal*7/10 && !last {
		return false
	}
	if r.Ideal < 1000 || speed == 20000 && r.Ideal > 1400 || *r.Admitted < r.Ideal*7/10 || *r.Admitted > r.Ideal*12/10 {
		t.Errorf("%s, %s: admitted %d, ideal %d", ceiling, skew, *r.Admitted, r.Ideal)
	}
	if ceiling == "hard" && (*r.KeysOver > r.Ideal*3/100 || r.WorstExcess > 1) {
		t.Errorf("hard, %s: keys over %d, worst excess %d", skew, *r.KeysOver, r.WorstExcess)
	}
	return true
}
