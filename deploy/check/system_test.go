package check

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/freeport"
)

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// need returns the path of a program that the test requires. If it is missing, need fails the
// test and names the package to install.
func need(t *testing.T, program, in string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("%s is not here: apt-get install %s", program, in)
	}
	return path
}

// static builds the binary of releases and images once for all tests, and returns its path or,
// with an error, the output of make.
var static = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "quorate-static-")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("make", "--no-print-directory", "static", "OUT="+dir, "VERSION=1.2.3-test")
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		return string(out), err
	}
	return filepath.Join(dir, "quorate"), nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := static(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

func staticBinary(t *testing.T) string {
	t.Helper()
	path, err := static()
	if err != nil {
		t.Fatalf("%v\n%s", err, path)
	}
	return path
}

// TestUnit checks that systemd-analyze accepts the unit without a warning and rates its exposure
// at most 2.0, and that the command of the unit exists.
func TestUnit(t *testing.T) {
	analyze := need(t, "systemd-analyze", "systemd")
	text := read(t, "../systemd/quorate.service")
	m := regexp.MustCompile(`(?m)^ExecStart=(/usr/bin/quorate) (.*)$`).FindStringSubmatch(text)
	if m == nil {
		t.Fatal("it runs no quorate")
	}
	if out, err := exec.Command(staticBinary(t), append(strings.Fields(m[2]), "--help")...).CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", m[2], err, out)
	}
	if !strings.Contains(text, "StateDirectory=quorate\n") || !strings.Contains(m[2], "--data /var/lib/quorate") {
		t.Error("the data are not in the directory that systemd makes")
	}
	if !strings.HasPrefix(read(t, "../systemd/quorate.sysusers"), "# ") || !strings.Contains(read(t, "../systemd/quorate.sysusers"), "\nu quorate ") {
		t.Error("nobody makes the user")
	}
	for _, variable := range regexp.MustCompile(`QUORATE_[A-Z_]+`).FindAllString(text, -1) {
		if !slices.Contains(config.Variables(), variable) {
			t.Errorf("%s is no variable of a node", variable)
		}
	}
	stop, err := strconv.Atoi(regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+)$`).FindStringSubmatch(text)[1])
	if err != nil || stop < 60+stopSeconds {
		t.Errorf("it is killed after %d s; the longest linger and a clean stop take %d", stop, 60+stopSeconds)
	}
	unit := filepath.Join(t.TempDir(), "quorate.service") // verify requires that the program exists
	if err := os.WriteFile(unit, []byte(strings.ReplaceAll(text, m[1], staticBinary(t))), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	if out, err := exec.Command(analyze, "security", "--offline=true", "--no-pager", "--threshold=20", unit).CombinedOutput(); err != nil {
		t.Errorf("its exposure is over 2.0: %v\n%s", err, out)
	}
}

// TestUnitSystemCalls checks that a node makes no system call that the unit forbids. It runs the
// node under strace, since not every test machine runs systemd.
func TestUnitSystemCalls(t *testing.T) {
	analyze, strace := need(t, "systemd-analyze", "systemd"), need(t, "strace", "strace")
	set := func(name string, depth int) (out []string) { return systemCalls(t, analyze, name, depth) }
	allowed := set("@system-service", 0)
	forbidden := append(set("@privileged", 0), set("@resources", 0)...)
	dir := t.TempDir()
	counts := filepath.Join(dir, "calls")
	n := startNode(t, []string{strace, "-f", "-qq", "-c", "-o", counts, staticBinary(t), "serve"}, "QUORATE_DATA="+filepath.Join(dir, "n1"))
	n.answers(t)
	n.stop(t)
	used := regexp.MustCompile(`(?m)^\s*[\d.]+\s+[\d.]+\s+\d+\s+\d+\s+(?:\d+\s+)?(\w+)$`).FindAllStringSubmatch(read(t, counts), -1)
	if len(used) < 10 {
		t.Fatalf("strace saw little:\n%s", read(t, counts))
	}
	// The unit refuses these calls without harm: the Go runtime raises its limit of open files
	// and queries the processors. execve happens before the filter is active.
	harmless := []string{"prlimit64", "setrlimit", "sched_setaffinity", "execve"}
	for _, call := range used {
		if name := call[1]; name != "total" && !slices.Contains(harmless, name) && (!slices.Contains(allowed, name) || slices.Contains(forbidden, name)) {
			t.Errorf("the unit forbids %s, which a node makes", name)
		}
	}
	t.Logf("%d kinds of system calls, all allowed", len(used))
}

// systemCalls returns the system calls of a systemd set, including those of nested sets.
func systemCalls(t *testing.T, analyze, name string, depth int) (out []string) {
	t.Helper()
	if depth > 5 {
		t.Fatalf("%s is too deep", name)
	}
	text, err := exec.Command(analyze, "syscall-filter", "--no-pager", name).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, text)
	}
	for _, line := range strings.Split(string(text), "\n") {
		word := strings.TrimSpace(line)
		switch {
		case word == "" || strings.HasPrefix(word, "#") || word == name:
		case strings.HasPrefix(word, "@"):
			out = append(out, systemCalls(t, analyze, word, depth+1)...)
		default:
			out = append(out, word)
		}
	}
	return out
}

// node is a quorate process that serves on its own ports without TLS.
type node struct {
	cmd  *exec.Cmd
	http string
	said bytes.Buffer
}

func startNode(t *testing.T, argv []string, environ ...string) *node {
	t.Helper()
	n := &node{cmd: exec.Command(argv[0], argv[1:]...), http: freeAddr(t)}
	n.cmd.Env = append(os.Environ(), "QUORATE_TLS_MODE=off", "QUORATE_LISTEN_HTTP="+n.http, "QUORATE_LISTEN_GRPC="+freeAddr(t), "QUORATE_LISTEN_PEER="+freeAddr(t), "QUORATE_RANGES=4")
	n.cmd.Env = append(n.cmd.Env, environ...)
	n.cmd.Stdout, n.cmd.Stderr = &n.said, &n.said
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-n.cmd.Process.Pid, syscall.SIGKILL)
		_ = n.cmd.Wait()
		if t.Failed() {
			t.Log(n.said.String())
		}
	})
	return n
}

func freeAddr(t *testing.T) string {
	t.Helper()
	addr, err := freeport.Addr()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// answers waits up to a minute until the node is ready.
func (n *node) answers(t *testing.T) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		res, err := http.Get("http://" + n.http + "/readyz")
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(until) {
			t.Fatalf("not ready: %v\n%s", err, n.said.String())
		}
	}
}

// stop sends SIGTERM to the node's process group, as a service manager does, and checks that
// the node exits without an error.
func (n *node) stop(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(-n.cmd.Process.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := n.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v\n%s", err, n.said.String())
	}
}

// TestImage checks that the container file builds the binary with make static, and that this
// binary runs alone in a read-only root as a user without a name.
func TestImage(t *testing.T) {
	text := read(t, "../container/Containerfile")
	for _, want := range []string{
		"RUN make static OUT=/out VERSION=", "FROM scratch\n", "COPY --from=build /out/quorate /usr/bin/quorate\n",
		"USER 65532:65532\n", "VOLUME /data\n", "EXPOSE 7411 7412 7413\n", `ENTRYPOINT ["/usr/bin/quorate"]`, `CMD ["serve"]`, "--chown=65532:65532",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the container file has no %q", want)
		}
	}
	d := config.Default()
	if d.Listen != (config.Listen{HTTP: "127.0.0.1:7411", GRPC: "127.0.0.1:7412", Peer: "127.0.0.1:7413"}) {
		t.Errorf("the image exposes other ports than %v", d.Listen)
	}
	unshare := need(t, "unshare", "util-linux")
	root, data := t.TempDir(), t.TempDir()
	for _, dir := range []string{"usr/bin", "data"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(data, 65532, 65532); err != nil {
		t.Fatalf("this test must run as root: %v", err)
	}
	if out, err := exec.Command("cp", staticBinary(t), filepath.Join(root, "usr/bin/quorate")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Chmod(filepath.Join(root, "usr/bin/quorate"), 0o755); err != nil {
		t.Fatal(err)
	}
	script := `set -e
mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; mount --bind "$2" "$1/data"
! touch "$1/x" 2>/dev/null
exec chroot --userspec=65532:65532 "$1" /usr/bin/quorate serve`
	n := startNode(t, []string{unshare, "--mount", "--propagation", "private", "sh", "-c", script, "sh", root, data}, "QUORATE_DATA=/data/quorate")
	n.answers(t)
	status := read(t, "/proc/"+strconv.Itoa(n.cmd.Process.Pid)+"/status")
	if !regexp.MustCompile(`(?m)^Uid:\s+65532\s`).MatchString(status) {
		t.Errorf("it runs as somebody else:\n%s", status)
	}
	n.stop(t)
	if info, err := os.Stat(filepath.Join(data, "quorate")); err != nil || info.Sys().(*syscall.Stat_t).Uid != 65532 {
		t.Errorf("its data are not where they should be: %v", err)
	}
}

// TestCompose checks that the nodes accept the settings in compose.yaml, that every mounted file
// exists, and that Prometheus scrapes addresses that the nodes serve.
func TestCompose(t *testing.T) {
	var c struct {
		Services map[string]struct {
			Environment map[string]string `json:"environment"`
			Volumes     []string          `json:"volumes"`
			Ports       []string          `json:"ports"`
			ReadOnly    bool              `json:"read_only"`
			Build       map[string]string `json:"build"`
			Command     []string          `json:"command"`
		} `json:"services"`
		Volumes map[string]any `json:"volumes"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "../compose/compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	taken := map[string]string{}
	nodes := 0
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(from, ".") {
				if _, err := os.Stat(filepath.Join("../compose", from)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			} else if _, ok := c.Volumes[from]; !ok {
				t.Errorf("%s: there is no volume %s", name, from)
			}
		}
		for _, p := range s.Ports {
			at := p[:strings.LastIndexByte(p, ':')]
			if taken[at] != "" || !strings.HasPrefix(at, "127.0.0.1:") {
				t.Errorf("%s: %s is %s's too, or open to everybody", name, at, taken[at])
			}
			taken[at] = name
		}
		if s.Environment["QUORATE_NODE"] == "" {
			continue
		}
		nodes++
		t.Run(name, func(t *testing.T) {
			for k, v := range s.Environment {
				t.Setenv(k, v)
			}
			n, err := config.LoadNode("")
			if err != nil {
				t.Fatal(err)
			}
			if string(n.Node) != name || len(n.Nodes) != 3 || n.Addresses().Peer == "" || !s.ReadOnly {
				t.Errorf("%+v", n)
			}
			for _, v := range s.Volumes {
				if from, to, _ := strings.Cut(v, ":"); strings.HasPrefix(to, n.Limits+":") {
					if _, err := config.LoadLimits(filepath.Join("../compose", from)); err != nil {
						t.Error(err)
					}
				}
			}
			if _, err := os.Stat(filepath.Join("../compose", s.Build["context"], s.Build["dockerfile"])); err != nil {
				t.Error(err)
			}
		})
	}
	if nodes != 3 {
		t.Errorf("%d nodes", nodes)
	}
	var prom struct {
		RuleFiles []string `json:"rule_files"`
		Scrape    []struct {
			Job    string `json:"job_name"`
			Static []struct {
				Targets []string `json:"targets"`
			} `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "../compose/prometheus.yaml")), &prom); err != nil {
		t.Fatal(err)
	}
	for _, f := range prom.RuleFiles {
		if _, err := os.Stat(filepath.Join("../prometheus", strings.TrimPrefix(f, "quorate/"))); err != nil {
			t.Error(err)
		}
	}
	for _, target := range prom.Scrape[0].Static[0].Targets {
		if host, port, err := net.SplitHostPort(target); err != nil || c.Services[host].Environment["QUORATE_LISTEN_HTTP"] != ":"+port {
			t.Errorf("nothing serves at %s", target)
		}
	}
	if own := read(t, "../prometheus/prometheus.yaml"); !strings.Contains(own, "job_name: "+prom.Scrape[0].Job+" ") {
		t.Errorf("alerts expect another job than %s", prom.Scrape[0].Job)
	}
}
