package systemtest

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/golden"
	"github.com/quorate/quorate/internal/testspeed"
)

const tutorial = "../docs/tutorial.md"

// Markers in the pages: the next block is a file that the reader writes, the test does not run the
// commands of the next block, or it runs them in the first half of a minute, because a fixed window
// of a minute must not end between them.
var (
	fileMarker   = regexp.MustCompile(`^<!-- file: (\S+) -->$`)
	skipMarker   = "<!-- not run -->"
	minuteMarker = "<!-- within one minute -->"
)

// masks match the parts of the output that differ in each run of the tutorial.
var masks = []*regexp.Regexp{
	regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| UTC)?`),
	regexp.MustCompile(`quorate1\.[^ ]+`),
	regexp.MustCompile(`\b\d+(\.\d+)?(ms|µs|us|s)\b`),
	regexp.MustCompile(`why \w+`),
	regexp.MustCompile(`remaining \d+`),
	regexp.MustCompile(`/[/\w.-]+/(n\d|shop)\b`),
	regexp.MustCompile(`\d+(\.\d+)? ?[KMG]i?B`),
	regexp.MustCompile(`((200|429) ?){3,}`), // on a busy machine a request that waited too long for its grant may be refused
	regexp.MustCompile(`in \d+ seconds?`),
	regexp.MustCompile(`(?i)retry-after: \d+`),
	regexp.MustCompile(`;t=\d+`),
	regexp.MustCompile(` +(\n|$)?`),
}

func masked(text string) string {
	for _, m := range masks {
		text = m.ReplaceAllString(text, "*")
	}
	return strings.TrimSpace(text)
}

// unsaid returns a diff between the page and the printed text that ignores masked differences: a
// line that differs from a line of the page only in masked parts is shown as the line of the page.
func unsaid(want, got string) string {
	page := map[string]string{}
	for l := range strings.SplitSeq(want, "\n") {
		page[masked(l)] = l
	}
	lines := strings.Split(got, "\n")
	for i, l := range lines {
		if same, ok := page[masked(l)]; ok {
			lines[i] = same
		}
	}
	return cmp.Or(golden.Diff("page", want+"\n", strings.Join(lines, "\n")+"\n"), got+"\n")
}

// TestTutorial follows the tutorial as written, in a separate network namespace, and checks that
// the commands print what it says. With -rewrite it updates the printed text.
func TestTutorial(t *testing.T) {
	testspeed.Full(t)
	needBinary(t)
	sh := newShell(t, "/tmp/shop")
	if out, err := exec.Command("go", "build", "-o", filepath.Join(sh.dir, "bin", "http-service"), "../examples/http-service").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if commands := sh.page(tutorial); commands < 20 {
		t.Errorf("%d commands were run; the tutorial has more", commands)
	}
}

// page follows a page and returns how many commands it ran.
func (s *shell) page(name string) (commands int) {
	t := s.t
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	lines := strings.Split(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		out.WriteString(lines[i] + "\n")
		if past := time.Now().Second(); lines[i] == minuteMarker && past > 30 {
			time.Sleep(time.Duration(61-past) * time.Second) // until the next minute begins
		}
		file := fileMarker.FindStringSubmatch(lines[i])
		skip := lines[i] == skipMarker
		if (file != nil || skip) && i+1 < len(lines) {
			i++
			out.WriteString(lines[i] + "\n")
		}
		if !strings.HasPrefix(lines[i], "```") || lines[i] == "```" {
			continue
		}
		end := i + 1
		for ; end < len(lines) && lines[end] != "```"; end++ {
		}
		block := lines[i+1 : end]
		switch {
		case file != nil:
			path := filepath.Join(s.dir, file[1])
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, path, strings.Join(block, "\n")+"\n")
		case lines[i] == "```console" && !skip:
			var n int
			block, n = s.block(block)
			commands += n
		}
		for _, l := range block {
			out.WriteString(strings.TrimRight(l, " ") + "\n")
		}
		out.WriteString("```\n")
		i = end
	}
	if *rewrite && !t.Failed() {
		write(t, name, strings.TrimRight(out.String(), "\n")+"\n")
	}
	return commands
}

// shell is a bash that runs the commands of a reader, one line after another.
type shell struct {
	t   *testing.T
	dir string
	is  string // the name of the directory in the pages
	in  io.Writer
	out *bufio.Reader
}

// newShell starts a shell in a separate network namespace and in a temporary directory, which pages
// call is.
func newShell(t *testing.T, is string) *shell {
	t.Helper()
	for _, program := range []string{"bash", "unshare", "ip", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			missing(t, fmt.Sprintf("needs %s: install bash, util-linux, iproute2 and curl", program))
		}
	}
	dir := t.TempDir()
	flags := []string{"-n"}
	if os.Geteuid() != 0 {
		flags = []string{"-r", "-n"}
	}
	if out, err := exec.Command("unshare", append(flags, "true")...).CombinedOutput(); err != nil {
		missing(t, fmt.Sprintf("needs a network of its own, for which it must be root or allowed to make user namespaces: %s", out))
	}
	cmd := exec.Command("unshare", append(flags, "bash")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+filepath.Dir(binary)+":"+os.Getenv("PATH")+":/usr/sbin", "QUORATE_USER=ann", "LC_ALL=C", "NO_COLOR=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pr, pw := io.Pipe()
	cmd.Stdout, cmd.Stderr = pw, pw
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sh := &shell{t: t, dir: dir, is: is, in: in, out: bufio.NewReader(pr)}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		pw.Close()
		close(ended)
	}()
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
			for _, l := range logs {
				b, _ := os.ReadFile(l)
				t.Logf("%s:\n%s", filepath.Base(l), tail(string(b), 20))
			}
		}
		fmt.Fprintln(in, "kill $(jobs -p) 2>/dev/null; sleep 0.2; kill -9 $(jobs -p) 2>/dev/null; wait; exit") // nginx stops its workers only on request
		in.Close()
		go io.Copy(io.Discard, pr) // lets exiting processes still print
		select {
		case <-ended:
		case <-time.After(5 * time.Second): // a command still runs
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-ended
		}
	})
	sh.run("ip link set lo up")
	return sh
}

// missing skips a test that cannot run here; in CI it fails the test.
func missing(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// commandTime bounds the run time of a command. A cluster that does not start reports why after a
// minute.
const commandTime = 90 * time.Second

// run runs a line and returns what it prints.
func (s *shell) run(line string) string {
	s.t.Helper()
	const mark = "quorate-page-done"
	fmt.Fprintf(s.in, "%s\necho; echo %s\n", line, mark)
	var out bytes.Buffer
	done := make(chan error, 1)
	go func() {
		for {
			l, err := s.out.ReadString('\n')
			if err != nil || strings.TrimSpace(l) == mark {
				done <- err
				return
			}
			out.WriteString(l)
		}
	}()
	select {
	case err := <-done:
		if err != nil {
			s.t.Fatalf("$ %s\n%s%v", line, &out, err)
		}
	case <-time.After(commandTime):
		s.t.Fatalf("$ %s\nstill runs after %v", line, commandTime)
	}
	return strings.ReplaceAll(strings.TrimRight(out.String(), "\n"), s.dir, s.is)
}

// block runs the commands of a block and returns the block with what they printed.
func (s *shell) block(block []string) (out []string, commands int) {
	s.t.Helper()
	for i := 0; i < len(block); {
		line, ok := strings.CutPrefix(block[i], "$ ")
		if !ok {
			s.t.Fatalf("a block of the page does not begin with a command: %q", block[i])
		}
		out = append(out, block[i])
		i++
		for ; i < len(block) && strings.HasPrefix(block[i], "> "); i++ {
			line += "\n" + block[i][2:]
			out = append(out, block[i])
		}
		var want []string
		for ; i < len(block) && !strings.HasPrefix(block[i], "$ "); i++ {
			want = append(want, block[i])
		}
		got := s.run(line)
		commands++
		if !*rewrite && masked(got) != masked(strings.Join(want, "\n")) {
			s.t.Errorf("$ %s\nprints what the page does not say:\n%sWhere it is meant, this writes it; then read the diff:\n  %s",
				line, unsaid(strings.Join(want, "\n"), got), golden.Command(s.t))
		}
		if got != "" {
			out = append(out, strings.Split(got, "\n")...)
		}
	}
	return out, commands
}

// TestUnsaid checks that a diff against the page leaves out masked differences.
func TestUnsaid(t *testing.T) {
	out := unsaid("took 12ms\nall well", "took 99ms\nnot well")
	if !strings.Contains(out, "-all well\n+not well\n") || strings.Contains(out, "99ms") {
		t.Errorf("it says\n%s", out)
	}
}
