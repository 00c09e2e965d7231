package systemtest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/golden"
	"github.com/quorate/quorate/internal/testspeed"
)

var rewrite = flag.Bool("rewrite", false, "rewrite docs/reference/mistakes.md by what commands print")

// mistake is something that users do wrong, and the message that they must get.
type mistake struct {
	title string
	line  string             // for a shell, in the directory of the cluster; $GRPC and the like are ports
	files map[string]string  // files that the mistake needs
	after func(d *workspace) // runs before the mistake
	code  int                // exit code; runsOn for a command that keeps running
	names []string           // what the message must name: the field, the value, the correction
}

// runsOn is the exit code of a command that keeps running. The test judges its first line that
// contains one of the names.
const runsOn = -2

// workspace is a directory with a secured cluster of one running node, n1, and a node other that
// does not run.
type workspace struct {
	t     *testing.T
	dir   string
	env   []string
	shown *strings.Replacer // replaces the ports of this machine by those in the document
	node  *process
}

func newWorkspace(t *testing.T) *workspace {
	t.Helper()
	needBinary(t)
	d := &workspace{t: t, dir: t.TempDir()}
	var shown []string
	base := freeBase(t)
	for k := 1; k <= 3; k++ {
		for p, name := range []string{"HTTP", "GRPC", "PEER"} {
			port := strconv.Itoa(base + 10*k + p + 1)
			variable := fmt.Sprintf("%s%d", name, k)
			d.env = append(d.env, variable+"="+port)
			shown = append(shown, port, fmt.Sprintf("74%d%d", k, p+1), "$"+variable, fmt.Sprintf("74%d%d", k, p+1))
		}
	}
	d.shown = strings.NewReplacer(append(shown, d.dir+"/", "", d.dir, ".")...)
	d.env = append(os.Environ(), append(d.env, "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"), "QUORATE_TLS_DIR=n1/admin", "QUORATE_USER=ann", "LC_ALL=C")...)
	return d
}

// run runs a line until it exits.
func (d *workspace) run(line string) (string, int) {
	cmd := exec.CommandContext(d.t.Context(), "sh", "-c", line)
	cmd.Dir, cmd.Env = d.dir, d.env
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return string(out), exitCode(err)
}

// must runs a line that must succeed.
func (d *workspace) must(line string) {
	d.t.Helper()
	if out, code := d.run(line); code != 0 {
		d.t.Fatalf("%s: exit code %d\n%s", line, code, out)
	}
}

// begins starts a line that keeps running.
func (d *workspace) begins(line string) *process {
	d.t.Helper()
	p := &process{t: d.t, cmd: exec.Command("sh", "-c", "exec "+line), ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = d.dir, d.env, &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	d.t.Cleanup(p.kill)
	return p
}

// says runs a line until its output has a line with one of the names.
func (d *workspace) says(line string, names []string) string {
	d.t.Helper()
	p := d.begins(line)
	defer p.kill()
	var found string
	eventually(d.t, 20*time.Second, line+" says "+names[0], func() error {
		for l := range strings.Lines(p.stderr.String() + p.stdout.String()) {
			if strings.Contains(l, names[0]) {
				found = l
				return nil
			}
		}
		return fmt.Errorf("it says\n%s%s", &p.stderr, &p.stdout)
	})
	return found
}

// moments match the parts of an output that differ each time.
var moments = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`time=\S+ `), ""},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| UTC|[+-]\d\d:\d\d)?`), "2026-11-22T09:00:00Z"},
	{regexp.MustCompile(`\d{4}/\d\d/\d\d \d\d:\d\d:\d\d`), "2026/11/22 09:00:00"},
	{regexp.MustCompile(`for=\d+s `), "for=2s "},
	{regexp.MustCompile(`SERIALNUMBER=[0-9a-f]+`), "SERIALNUMBER=0123abcd"},
	{regexp.MustCompile(`SHA-256 [0-9a-f]+`), "SHA-256 0123456789abcdef"},
	{regexp.MustCompile(`join token [0-9a-f]{12}`), "join token 0123456789ab"},
	{regexp.MustCompile(`server preface: [^";\n]*`), "server preface: EOF"}, // or a reset, whichever comes first
	{regexp.MustCompile(`at byte \d+(, in [a-z0-9-]+)?: the checksum of block \d+`), "at byte 951, in range-002: the checksum of block 13"},
}

// plain returns an output as the document shows it.
func (d *workspace) plain(out string) string {
	out = d.shown.Replace(out)
	for _, m := range moments {
		out = m.what.ReplaceAllString(out, m.with)
	}
	return strings.TrimRight(out, "\n")
}

const mistakesDoc = "../docs/reference/mistakes.md"

const mistakesHead = `# Mistakes

Common mistakes and the messages that Quorate prints for them: the field, the value, and the valid values. A test runs every command
and writes this page: ` + "`TEST_SPEED=full go test ./systemtest -run Mistakes -rewrite`" + `.

The commands run in a directory with ` + "`n1`" + `, the data of a running cluster of one node, which ` + "`quorate init --data n1`" + ` created. ` + "`QUORATE_TLS_DIR`" + `
is ` + "`n1/admin`" + `. ` + "`quorate exit-codes`" + ` explains the exit codes.
`

// TestMistakes makes every mistake and checks that the messages match docs/reference/mistakes.md.
func TestMistakes(t *testing.T) {
	testspeed.Full(t)
	d := newWorkspace(t)
	d.must("quorate init --data n1 --cluster prod --ranges 4 --http 127.0.0.1:$HTTP1 --grpc 127.0.0.1:$GRPC1 --peer 127.0.0.1:$PEER1")
	d.must("quorate init --data other --cluster staging --ranges 4 --http 127.0.0.1:$HTTP3 --grpc 127.0.0.1:$GRPC3 --peer 127.0.0.1:$PEER3")
	d.node = d.begins("quorate serve --data n1")
	d.env = append(d.env, "ADDR=127.0.0.1:"+d.port("GRPC1"))
	write(t, filepath.Join(d.dir, "first.yaml"), mistakesLimits)
	eventually(t, 30*time.Second, "the cluster takes limits", func() error {
		if out, code := d.run("quorate limits apply first.yaml --addr $ADDR"); code != 0 {
			return fmt.Errorf("exit code %d: %s", code, out)
		}
		return nil
	})
	var doc bytes.Buffer
	doc.WriteString(mistakesHead)
	count := 0
	for _, part := range mistakes {
		fmt.Fprintf(&doc, "\n## %s\n", part.title)
		for i := range part.all {
			m := &part.all[i]
			count++
			t.Run(m.title, func(t *testing.T) {
				d.t = t
				out := d.make(m)
				fmt.Fprintf(&doc, "\n**%s**\n\n```console\n%s$ %s\n%s\n```\n", m.title, d.shows(m), d.shown.Replace(strings.ReplaceAll(m.line, " --addr $ADDR", "")), out)
			})
		}
	}
	d.t = t
	if count < 50 {
		t.Errorf("%d mistakes, not 50", count)
	}
	if t.Failed() {
		return
	}
	golden.Hold(t, mistakesDoc, doc.String(), *rewrite)
}

// make makes a mistake and returns what the document shows of it.
func (d *workspace) make(m *mistake) string {
	d.t.Helper()
	for name, text := range m.files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(d.dir, name)), 0o700); err != nil {
			d.t.Fatal(err)
		}
		write(d.t, filepath.Join(d.dir, name), text)
	}
	if m.after != nil {
		m.after(d)
	}
	var out string
	if m.code == runsOn {
		out = d.says(m.line, m.names)
	} else {
		var code int
		if out, code = d.run("timeout 30 " + m.line); code != m.code {
			d.t.Errorf("exit code %d, not %d:\n%s", code, m.code, out)
		}
	}
	for _, name := range m.names {
		if !strings.Contains(out, os.Expand(name, d.value)) {
			d.t.Errorf("it does not name %q:\n%s", name, out)
		}
	}
	if strings.Contains(out, "goroutine ") {
		d.t.Errorf("it panics:\n%s", out)
	}
	out = d.plain(out)
	if m.code != runsOn && m.code != 0 {
		out += fmt.Sprintf("\n[exit code %d]", m.code)
	}
	return out
}

// shows returns the file that contains the mistake, if there is exactly one and it is short.
func (d *workspace) shows(m *mistake) string {
	if len(m.files) != 1 {
		return ""
	}
	for name, text := range m.files {
		if strings.Count(text, "\n") <= 8 {
			return fmt.Sprintf("$ cat %s\n%s", name, d.shown.Replace(text))
		}
	}
	return ""
}

func (d *workspace) value(name string) string {
	for _, e := range d.env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

func (d *workspace) port(name string) string { return d.value(name) }
