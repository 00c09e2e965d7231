//go:build unix

package journal

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// deathDir is the environment variable that turns this test binary into the process that dies.
const deathDir = "QUORATE_TEST_JOURNAL"

func TestMain(m *testing.M) {
	if dir := os.Getenv(deathDir); dir != "" {
		countForEver(dir)
	}
	os.Exit(m.Run())
}

// countForEver counts on four keys, with all other fields as functions of Total, and prints its
// progress now and then.
func countForEver(dir string) {
	j, err := Open(config(dir, 1))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	set := func(i int) func(quota.Counts) { return j.Slot(key(i), quota.Seq(i)).Set }
	sets := []func(quota.Counts){set(0), set(1), set(2), set(3)}
	for n := quota.Units(1); ; n++ {
		for _, set := range sets {
			set(counted(n))
		}
		if n%10_000 == 0 {
			fmt.Println(int64(n))
		}
	}
}

func counted(n quota.Units) quota.Counts {
	return quota.Counts{Total: n, Saved: n / 2, Before: n / 3, Back: ^n, Window: quota.Time(7 * n)}
}

// TestDeath repeatedly kills a process that does nothing but write: no slot is torn, and no write
// that the process has reported is lost. The first processes die a fixed time after their start,
// wherever they are by then; the others after they have reported some counts.
func TestDeath(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	most := quota.Units(0)
	for round := range 10 {
		dir := t.TempDir()
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), deathDir+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		life := 20*time.Millisecond + time.Duration(round)*1237*time.Microsecond
		if round >= 5 {
			life += time.Minute // unless it reports progress
		}
		kill := time.AfterFunc(life, func() { _ = cmd.Process.Kill() })
		said := quota.Units(0)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n, err := strconv.ParseInt(strings.TrimSpace(lines.Text()), 10, 64)
			if err != nil {
				t.Fatal(lines.Text())
			}
			if said == 0 && round >= 5 {
				kill.Reset(time.Duration(round) * 1237 * time.Microsecond)
			}
			said = quota.Units(n)
		}
		_ = cmd.Wait() // killed
		kill.Stop()
		most = max(most, said)
		got := open(t, config(dir, 2)).Inherited()
		if said > 0 && len(got) != 4 {
			t.Fatalf("%d slots of 4", len(got))
		}
		for _, e := range got {
			if e.Counts != (quota.Counts{}) && e.Counts != counted(e.Total) || e.Total < said || e.Total > said+10_001 {
				t.Errorf("%+v after it said %d", e, said)
			}
		}
	}
	if most == 0 {
		t.Error("no process lived long enough to count")
	}
	t.Logf("the highest count of a process was %d", most)
}
