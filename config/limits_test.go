package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/suggest"
)

func limit(namespace, name string, tokens int64, per time.Duration, burst int64, c quota.Ceiling) quota.Limit {
	return quota.Limit{
		LimitName: quota.LimitName{Namespace: namespace, Limit: name},
		Rate:      quota.Rate{Tokens: tokens, Per: per}, Burst: burst, Ceiling: c,
	}
}

func TestExamples(t *testing.T) {
	got, err := LoadLimits("../examples/limits.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := []quota.Limit{
		limit("api", "export", 10, time.Minute, 3, quota.Soft),
		limit("api", "per_tenant", 1000, time.Second, 1000, quota.Soft),
		limit("api", "writes", 50, time.Second, 50, quota.Soft),
		limit("mail", "per_sender", 500, 24*time.Hour, 50, quota.Hard),
		limit("web", "login", 5, time.Minute, 5, quota.Hard),
		limit("web", "per_client", 10, time.Second, 20, quota.Soft),
	}
	if !slices.Equal(exact(got), exact(want)) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if _, err := quota.NewLimits(1, got); err != nil {
		t.Error(err)
	}
	var first Node
	for k := 1; k <= 3; k++ {
		n, err := LoadNode(fmt.Sprintf("../examples/cluster/n%d.yaml", k))
		if err != nil {
			t.Fatal(err)
		}
		id := quota.NodeID(fmt.Sprintf("n%d", k))
		listen := Listen{HTTP: fmt.Sprintf("127.0.0.1:74%d1", k), GRPC: fmt.Sprintf("127.0.0.1:74%d2", k), Peer: fmt.Sprintf("127.0.0.1:74%d3", k)}
		if n.Node != id || n.Listen != listen || n.Data != filepath.Join("../examples/cluster/data", string(id)) {
			t.Errorf("n%d: %+v", k, n)
		}
		if k == 1 {
			first = n
		}
		if n.Cluster != first.Cluster || !slices.Equal(n.Nodes, first.Nodes) {
			t.Errorf("n%d is of another cluster than n1: %+v", k, n)
		}
		if _, err := LoadLimits(n.Limits); err != nil {
			t.Error(err)
		}
	}
}

// TestExampleOfAll requires examples/limits-all.yaml to have every field.
func TestExampleOfAll(t *testing.T) {
	data, err := os.ReadFile("../examples/limits-all.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseLimits("limits-all.yaml", data); err != nil {
		t.Error(err)
	}
	l, d := &limitFile{}, &draft{}
	for _, fields := range [][]Field{
		l.fields(), l.namespaceFields("web"), l.limitFields(d), l.templateFields(d), l.floorFields(d),
		l.enforcementFields(d), l.cutOffFields(&d.CutOff), l.slaFields(&sla{}),
	} {
		for _, f := range fields {
			if !strings.Contains(string(data), f.Name+":") {
				t.Errorf("examples/limits-all.yaml does not show %s", f.Name)
			}
		}
	}
}

// exact formats rates as tokens per period, in lowest decimal terms.
func exact(limits []quota.Limit) []string {
	var out []string
	for _, l := range limits {
		r, err := quota.ParseRate(l.Rate.String())
		out = append(out, fmt.Sprint(l.LimitName, r, l.Burst, l.Ceiling, err))
	}
	return out
}

func TestTooMuch(t *testing.T) {
	if testing.Short() {
		t.Skip("runs for seconds in one goroutine; left out by -short")
	}
	many := func(n int) []byte {
		var b strings.Builder
		b.WriteString("version: 1\nnamespaces:\n  web:\n    limits:\n")
		for i := range n {
			fmt.Fprintf(&b, "      l%d: {rate: 1/s}\n", i)
		}
		return []byte(b.String())
	}
	if l, err := ParseLimits("f", many(quota.MaxLimits)); err != nil || len(l) != quota.MaxLimits {
		t.Errorf("as many limits as allowed: %d, %v", len(l), err)
	}
	wantFault(t, many(quota.MaxLimits+2), 1, "f:100005:7: namespaces.web.limits.l100000: is over the maximum of 100000 limits in a file")
	wantFault(t, slices.Repeat([]byte("# 4 MiB\n"), MaxFileBytes/8+1), 1, "f: is larger than 4 MiB; at most 4194304 bytes are read")
	wantFault(t, []byte("{"+strings.Repeat("a,", 2000)+"}"), maxFaults+1, "f: has more than 1000 faults; the others are not listed")
	wantFault(t, []byte(strings.Repeat("[", 1<<20)), 1, "f:1:10001: is not valid YAML")
}

// wantFault requires ParseLimits to find this many faults, and to report want.
func wantFault(t *testing.T, data []byte, faults int, want string) {
	t.Helper()
	_, err := ParseLimits("f", data)
	var fe *FileError
	if !errors.As(err, &fe) || len(fe.Faults) != faults || !strings.Contains("\n"+err.Error(), "\n"+want) {
		text := fmt.Sprint(err)
		t.Errorf("got %.300s\nwant %d faults, and %s", text, faults, want)
	}
}

func TestLoadLimitsUnreadable(t *testing.T) {
	if _, err := LoadLimits(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := LoadLimits(t.TempDir()); err == nil {
		t.Error("a directory is read as a limit file")
	}
	large := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, 1<<40); err != nil {
		t.Skip(err)
	}
	if _, err := LoadLimits(large); err == nil || !strings.HasSuffix(err.Error(), "is larger than 4 MiB; at most 4194304 bytes are read") {
		t.Errorf("a file of 1 TiB: %v", err)
	}
}

func TestNearest(t *testing.T) {
	words := []string{"rate", "burst", "ceiling", "max_keys"}
	for s, want := range map[string]string{
		"brust": "burst", "bursts": "burst", "rat": "rate", "Rate": "rate", "celing": "ceiling", "maxkeys": "max_keys",
		"colour": "", "": "", "x": "", strings.Repeat("rate", 1000): "",
	} {
		if got := suggest.Word(s, words); got != want {
			t.Errorf("%.20q: %q; want %q", s, got, want)
		}
	}
}
