package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/quorate/quorate/internal/cli"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/load"
	"github.com/quorate/quorate/internal/golden"
)

const exampleLog = "../../examples/access.log"

// virtually runs "quorate replay --virtual" with more flags.
func virtually(t *testing.T, flags string) (out, messages string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Run(t.Context(), append([]string{"replay", "--virtual"}, strings.Fields(flags)...), &stdout, &stderr)
	return stdout.String(), stderr.String(), code
}

// TestVirtual checks what the example log would have met with limits of every kind. It uses one
// node, so the result does not depend on how nodes share.
func TestVirtual(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine plays for long; left out by -short, where TestVirtualJSON plays the same once")
	}
	for name, flags := range map[string]string{
		"bucket":  "--limit web/per_client --top 3",
		"window":  "--limit web/pages --sync 250ms --delay 40ms --top 5",
		"matches": "--key user_agent --top 2 --seed 7",
		"nobody":  "--limit web/much",
	} {
		t.Run(name, func(t *testing.T) {
			out, messages, code := virtually(t, "--nodes 1 --log "+exampleLog+" --limits testdata/virtual.yaml "+flags)
			if code != exit.OK {
				t.Fatalf("exit code %d: %s", code, messages)
			}
			golden.Hold(t, "testdata/virtual_"+name+".golden", out, *rewrite)
		})
	}
}

// TestVirtualNodes checks that a hard limit is never exceeded, and a soft one not by much, although
// pages arrive at several nodes within an instant.
func TestVirtualNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine plays for long; left out by -short")
	}
	for flags, most := range map[string]float64{
		"--limit web/pages_hard --nodes 3": 0,
		"--limit web/pages_hard --nodes 5 --skew 60/10/10/10/10 --delay 20ms --grant-wait 200ms": 0,
		"--limit web/per_client --nodes 3":  5,
		"--limit web/per_client --nodes 10": 5,
	} {
		out, messages, code := virtually(t, "--log "+exampleLog+" --limits testdata/virtual.yaml -o json "+flags)
		var rep load.VirtualReport
		if err := json.Unmarshal([]byte(out), &rep); code != exit.OK || err != nil {
			t.Fatalf("exit code %d: %s%v", code, messages, err)
		}
		res := rep.Limits[0]
		if res.NetPct > most || most == 0 && res.WorstExcess > 0 || res.NetPct < -10 || res.Refused == 0 {
			t.Errorf("%s: net %+.2f%%, worst excess %d, refused %d", flags, res.NetPct, res.WorstExcess, res.Refused)
		}
	}
}

// TestVirtualJSON checks that the parts add up to the total, and that a second run is the same.
func TestVirtualJSON(t *testing.T) {
	if testing.Short() {
		t.Skip("runs for seconds in one goroutine; left out by -short")
	}
	const flags = "--log " + exampleLog + " --limits testdata/virtual.yaml --limit web/pages -o json --top 1000000"
	out, messages, code := virtually(t, flags)
	if code != exit.OK {
		t.Fatalf("exit code %d: %s", code, messages)
	}
	if again, _, _ := virtually(t, flags); again != out {
		t.Error("a second run is not the same")
	}
	var rep load.VirtualReport
	if err := json.Unmarshal([]byte(out), &rep); err != nil {
		t.Fatal(err)
	}
	res := rep.Limits[0]
	var byTier, byHour, byKey, attempts int64
	for _, x := range res.Tiers {
		byTier += x.Refused
	}
	for _, h := range res.Hours {
		byHour += h.Refused
		attempts += h.Attempted
	}
	for _, k := range res.MostRefused {
		byKey += k.Refused
		if k.Attempted != k.Admitted+k.Refused || k.FirstRefused.Before(rep.From) || k.FirstRefused.After(rep.To) || k.ByTier < 1 {
			t.Errorf("%+v", k)
		}
	}
	if res.Refused == 0 || byTier != res.Refused || byHour != res.Refused || byKey != res.Refused || len(res.MostRefused) != res.KeysCut {
		t.Errorf("refused %d, by tier %d, by hour %d, by key %d", res.Refused, byTier, byHour, byKey)
	}
	if attempts != res.Attempted || res.Attempted != rep.Requests || res.Admitted+res.Refused != res.Attempted {
		t.Errorf("%d requests, attempted %d, by hour %d, admitted %d, refused %d", rep.Requests, res.Attempted, attempts, res.Admitted, res.Refused)
	}
	golden.HasFields(t, rep, "limits_file", "nodes", "requests", "bad_lines", "from", "to", "limits")
	golden.HasFields(t, res, "attempted", "admitted", "refused", "ideal_admitted", "over_pct", "under_pct", "net_pct", "hours", "tiers", "most_refused")
}

// TestVirtualAlone checks that one node that decides alone equals the ideal.
func TestVirtualAlone(t *testing.T) {
	out, _, _ := virtually(t, "--log "+exampleLog+" --limits testdata/virtual.yaml --limit web/pages_hard --nodes 1 -o json")
	var rep load.VirtualReport
	if err := json.Unmarshal([]byte(out), &rep); err != nil {
		t.Fatal(err)
	}
	if res := rep.Limits[0]; res.KeysOver+res.KeysUnder+res.NetTokens != 0 || res.WorstExcess != 0 || res.Refused == 0 {
		t.Errorf("%+v", res)
	}
}

// TestVirtualInterrupted checks that Ctrl-C ends a replay without simulating the rest of the log:
// for these decades that would take hours.
func TestVirtualInterrupted(t *testing.T) {
	const line = `192.0.2.1 - - [01/Jan/%d:00:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "-"` + "\n"
	file := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(file, fmt.Appendf(nil, line+line, 1990, 2025), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var stdout, stderr bytes.Buffer
	args := "replay --virtual --nodes 100 --limits testdata/virtual.yaml --limit web/pages_hard --log " + file
	code := cli.Run(ctx, strings.Fields(args), &stdout, &stderr)
	if code != exit.No || stdout.Len() > 0 || !strings.HasPrefix(stderr.String(), "quorate: interrupted") {
		t.Errorf("exit code %d, printed %q and %q; want 1, nothing, and that it was interrupted", code, stdout.String(), stderr.String())
	}
}

// TestVirtualFaults checks the exit code and the message for each wrong flag or file.
func TestVirtualFaults(t *testing.T) {
	const limits, log = " --limits testdata/virtual.yaml ", "--log " + exampleLog
	for _, c := range []struct {
		flags string
		code  int
		want  string
	}{
		{"", exit.Usage, "--log is missing"},
		{log, exit.Usage, "--limits is missing: say which limit file to try"},
		{"--log - --limits -", exit.Usage, "cannot both be standard input"},
		{log + limits + "--key cookie", exit.Usage, `--key "cookie": must be one of ip`},
		{log + limits + "--nodes 0", exit.Usage, "--nodes 0: must be 1 to 100"},
		{log + limits + "--sync 1us", exit.Usage, "--sync 1µs: must be 1ms to 1m"},
		{log + limits + "--delay -1s", exit.Usage, "--delay -1s: must be 0 to 10s"},
		{log + limits + "--grant-wait 2s", exit.Usage, "--grant-wait 2s: must be 0 to 1s"},
		{log + limits + "--top -1", exit.Usage, "--top -1: must be 0 to"},
		{log + limits + "--skew 90/10", exit.Usage, "has 2 weights for 3 nodes"},
		{log + limits + "--limit web", exit.Usage, "namespace/limit"},
		{log + limits + "--limit web/a", exit.NotFound, "limit web/a: unknown in testdata/virtual.yaml, which has "},
		{log + limits + "--limit web/running", exit.Usage, "limit web/running: is a concurrency limit"},
		{log + limits + "--limit web/child", exit.Usage, "limit web/child: has the parent much"},
		{log + limits + "--limit web/nothing", exit.Usage, "limit web/nothing: counts nothing"},
		{log + limits + "--speed 2", exit.Usage, "--speed: is only for a replay against a running cluster; leave it out"},
		{log + limits + "--addr 127.0.0.1:1", exit.Usage, "--addr: is only for"},
		{log + " --limits ../../examples/limits.yaml", exit.Usage, "no limit of ../../examples/limits.yaml has a match; name one of its "},
		{log + " --limits " + exampleLog, exit.Usage, "access.log:1216:107: is not valid YAML"},
		{"--log testdata/virtual.yaml" + limits, exit.Usage, "has no line in combined format"},
		{"--log missing" + limits, exit.Usage, syscall.ENOENT.Error()},
	} {
		if out, messages, code := virtually(t, c.flags); code != c.code || out != "" || !strings.Contains(messages, c.want) {
			t.Errorf("%s\n exit code %d, want %d\n%s%s\n want %q", c.flags, code, c.code, out, messages, c.want)
		}
	}
	var out, messages bytes.Buffer
	if code := cli.Run(t.Context(), []string{"replay", "--log", "x", "--limit", "a/b", "--sync", "1s"}, &out, &messages); code != exit.Usage ||
		!strings.Contains(messages.String(), "--sync: is only for a replay with --virtual") {
		t.Errorf("exit code %d: %s", code, &messages)
	}
}

// TestLogsAsTheyAre checks that a pause of a year in a log takes no time to replay, that lines with
// implausible times are reported and skipped, and that gzip and a byte order mark are accepted.
func TestLogsAsTheyAre(t *testing.T) {
	line := func(at string) string {
		return fmt.Sprintf("10.0.0.1 - - [%s +0000] \"GET /a HTTP/1.1\" 200 5 \"-\" \"x\"\n", at)
	}
	const day = "17/May/2015:10:05:03"
	two := line(day) + line("17/May/2015:10:05:04")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte("\ufeff" + two)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		log  string
		code int
		want []string
	}{
		"years between":     {line("17/May/1995:10:05:03") + two, exit.OK, []string{"3 requests of 1 key (ip), 1995-05-17 10:05:03 to 2015-05-17 10:05:04 UTC", "admitted     3"}},
		"the epoch":         {two + line("01/Jan/1970:00:00:00"), exit.OK, []string{"2 requests of 1 key", "1, left out (line 3: time 1970-01-01T00:00:00Z: is before 1990"}},
		"the year 1":        {two + line("01/Jan/0001:00:00:00"), exit.OK, []string{"2015-05-17 10:05:03 to 2015-05-17", "line 3: time 0001-01-01T00:00:00Z"}},
		"the year 9999":     {two + line("01/Jan/9999:00:00:00"), exit.OK, []string{"2 requests of 1 key", "line 3: time 9999-01-01T00:00:00Z: is in the future"}},
		"a byte order mark": {"\ufeff" + two, exit.OK, []string{"2 requests of 1 key"}},
		"gzip":              {packed.String(), exit.OK, []string{"2 requests of 1 key"}},
		"zstd":              {"\x28\xb5\x2f\xfd and more", exit.Fault, []string{"is compressed with zstd; decompress it"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "access.log")
			if err := os.WriteFile(path, []byte(tt.log), 0o600); err != nil {
				t.Fatal(err)
			}
			out, messages, code := virtually(t, "--log "+path+" --limits testdata/virtual.yaml --limit web/per_client")
			if tt.code == exit.OK && code != exit.OK || tt.code != exit.OK && code == exit.OK {
				t.Errorf("exit code %d", code)
			}
			for _, w := range tt.want {
				if !strings.Contains(out+messages, w) {
					t.Errorf("%s%s\nlacks %q", out, messages, w)
				}
			}
		})
	}
}
