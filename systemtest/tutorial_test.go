package systemtest

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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
// of a minute must not end between them. Between before and its end are lines that the test runs, and
// the reader does not see. From another one on, numbers differ in each run. The command of the block after
// the last one runs until the page ends.
var (
	fileMarker   = regexp.MustCompile(`^<!-- file: (\S+) -->$`)
	skipMarker   = "<!-- not run -->"
	minuteMarker = "<!-- within one minute -->"
	beforeMarker = "<!-- before"
	beforeEnd    = "-->"
	numberMarker = "<!-- numbers differ from here on -->"
	serverMarker = "<!-- runs on -->"
)

// elided is a line of a page that stands for any lines.
const elided = "..."

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

// numberMasks match what differs besides after numberMarker: measured numbers, ids and charts.
var numberMasks = []*regexp.Regexp{
	regexp.MustCompile(`:\*\d+(\*[a-z]+)+\*in\*+`), // progress, unless all was done at once
	regexp.MustCompile(`[\d.]+\*[KM]?i?B\b`),
	regexp.MustCompile(`\b[0-9a-f]{12,}\b`),
	regexp.MustCompile(`\[n\d( n\d)*\]`), // nodes that have not followed yet
	regexp.MustCompile(`[\d.,]*\d%?`),
	regexp.MustCompile(`\*to\*`),       // a range, where a number may be
	regexp.MustCompile(`[▁▂▃▄▅▆▇█*]+`), // with the blanks of a chart
}

// masker returns text without the parts that differ in each run.
type masker []*regexp.Regexp

func (m masker) masked(text string) string {
	text = blanks.ReplaceAllString(text, "")
	for _, m := range m {
		text = m.ReplaceAllString(text, "*")
	}
	return strings.TrimSpace(lineEnd.ReplaceAllString(text, ""))
}

var (
	// blanks match the blanks at the end of a line, which pages do not have.
	blanks = regexp.MustCompile(`(?m) +$`)
	// lineEnd matches a masked end of a line, which may also be missing.
	lineEnd = regexp.MustCompile(`(?m)\*+$`)
)

// says reports whether the page's lines say what was printed.
func (m masker) says(page, printed string) bool {
	parts := strings.Split("\n"+page+"\n", "\n"+elided+"\n")
	if len(parts) == 1 {
		return m.masked(page) == m.masked(printed)
	}
	got, ok := strings.CutPrefix(m.masked(printed), m.masked(parts[0]))
	for _, p := range parts[1 : len(parts)-1] {
		_, rest, found := strings.Cut(got, m.masked(p))
		got, ok = rest, ok && found
	}
	return ok && strings.HasSuffix(got, m.masked(parts[len(parts)-1]))
}

// unsaid returns a diff between the page and the printed text that ignores masked differences: a
// line that differs from a line of the page only in masked parts is shown as the line of the page.
func (m masker) unsaid(want, got string) string {
	page := map[string]string{}
	for l := range strings.SplitSeq(want, "\n") {
		page[m.masked(l)] = l
	}
	lines := strings.Split(got, "\n")
	for i, l := range lines {
		if same, ok := page[m.masked(l)]; ok {
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
		if lines[i] == beforeMarker {
			for i++; lines[i] != beforeEnd; i++ {
				out.WriteString(lines[i] + "\n")
				s.run(lines[i])
			}
			out.WriteString(lines[i] + "\n")
			continue
		}
		if lines[i] == numberMarker {
			s.masker = slices.Concat(masks, numberMasks)
		}
		file := fileMarker.FindStringSubmatch(lines[i])
		skip, server := lines[i] == skipMarker, lines[i] == serverMarker
		if (file != nil || skip || server) && i+1 < len(lines) {
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
		case lines[i] == "```console" && server:
			s.server(block)
			commands++
		case lines[i] == "```sh" && !skip:
			for _, line := range block {
				if got := s.run(line + "\necho exit $?"); !strings.HasSuffix(got, "exit 0") {
					t.Errorf("%s\nfails:\n%s", line, got)
				}
				commands++
			}
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
	masker
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
	sh := &shell{t: t, dir: dir, is: is, in: in, out: bufio.NewReader(pr), masker: masks}
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

// reads match commands that print the state of a cluster. They are run again for settleTime: a
// leadership may just be moving, above all on a busy machine.
var reads = regexp.MustCompile(`^quorate (status|(cluster|ca) status|cluster plan|nodes list|join-token list|accounts get|history|top|whoami)\b`)

const settleTime = 20 * time.Second

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

// server starts the command of a block, and returns once it has printed what the block says.
func (s *shell) server(block []string) {
	s.t.Helper()
	line, ok := strings.CutPrefix(block[0], "$ ")
	if !ok {
		s.t.Fatalf("a block of the page does not begin with a command: %q", block[0])
	}
	s.run(line + " > server.log 2>&1 &")
	want := strings.Join(block[1:], "\n")
	eventually(s.t, commandTime, line, func() error {
		if got := s.run("cat server.log"); !s.says(want, got) {
			return errors.New(s.unsaid(want, got))
		}
		return nil
	})
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
		page := strings.Join(want, "\n")
		for until := time.Now().Add(settleTime); !*rewrite && reads.MatchString(line) && !s.says(page, got) && time.Now().Before(until); {
			time.Sleep(200 * time.Millisecond)
			got = s.run(line)
		}
		says := s.says(page, got)
		if !*rewrite && !says {
			s.t.Errorf("$ %s\nprints what the page does not say:\n%sWhere it is meant, this writes it; then read the diff:\n  %s",
				line, s.unsaid(page, got), golden.Command(s.t))
		}
		switch {
		case says:
			out = append(out, want...)
		case got != "":
			out = append(out, strings.Split(got, "\n")...)
		}
	}
	return out, commands
}

// TestUnsaid checks that a diff against the page leaves out masked differences.
func TestUnsaid(t *testing.T) {
	out := masker(masks).unsaid("took 12ms\nall well", "took 99ms\nnot well")
	if !strings.Contains(out, "-all well\n+not well\n") || strings.Contains(out, "99ms") {
		t.Errorf("it says\n%s", out)
	}
}

// TestSays checks what a page may leave out, and which numbers it need not have.
func TestSays(t *testing.T) {
	for _, one := range []struct {
		masks         masker
		page, printed string
		want          bool
	}{
		{masks, "a 1\nb", "a 1\nb", true},
		{masks, "a 1\nb", "a 2\nb", false},
		{masks, "a\n...", "a\nb\nc", true},
		{masks, "a\n...\nc", "a\nb\nc", true},
		{masks, "a\n...\nd", "a\nb\nc", false},
		{masks, "b\n...", "a\nb\nc", false},
		{masks, "a\n...\nc\n...\ne", "a\nb\nc\nd\ne", true},
		{masks, "a\n...\nd\n...\ne", "a\nb\nc\ne", false},
		{masks, "a\n...\na", "a", false},
		{slices.Concat(masks, numberMasks), "n1 leads 12 (40.5%)  ▁▂", "n2 leads 1 (3%)  ▇", true},
		{slices.Concat(masks, numberMasks), "n1 leads 12", "n2 holds 12", false},
		{slices.Concat(masks, numberMasks), "n2 leads nothing: 4 leaderships handed over in 600ms", "n2 leads nothing", true},
		{slices.Concat(masks, numberMasks), "0  yes", "0 to 200  yes", true},
	} {
		if got := one.masks.says(one.page, one.printed); got != one.want {
			t.Errorf("%q, printed %q: %v", one.page, one.printed, got)
		}
	}
}
