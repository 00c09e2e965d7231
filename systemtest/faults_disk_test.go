package systemtest

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// harmed is the index of the node whose disk the tests damage.
const harmed = 2

// awaitLeading waits until the node leads ranges, because only then its disk matters.
func (f *loadedCluster) awaitLeading(k int) {
	f.t.Helper()
	eventually(f.t, 90*time.Second, f.c.nodes[k].id+" leads ranges", func() error {
		st, err := f.c.nodes[k].status()
		if err == nil && !st.leads(f.c.nodes[k].id) {
			err = errors.New("it leads none")
		}
		return err
	})
}

func (c *servers) dataDir(k int) string { return filepath.Join(c.dir, c.nodes[k].id) }

// smallDisk puts the data of the harmed node on a small file system in memory.
func smallDisk(c *servers) { mountSmall(c.t, c.dataDir(harmed), "160m") }

// fullDisk fills the disk of a node, and frees the space again.
func (f *loadedCluster) fullDisk() fault {
	hold := long(20*time.Second, 2*time.Second)
	f.awaitLeading(harmed)
	ballast := filepath.Join(f.c.dataDir(harmed), "ballast")
	return fault{
		name: "disk full", did: fmt.Sprintf("no byte left on %s's disk for %v", f.c.nodes[harmed].id, hold),
		inject: func() { fillDisk(f.t, ballast) }, hold: hold, sick: []int{harmed},
		heal: func() {
			if err := os.Remove(ballast); err != nil {
				f.t.Error(err)
			}
		},
	}
}

// mountImage puts a node's data on an ext4 file system in an image file. The file system remounts
// itself read-only when it finds an error.
func mountImage(c *servers) {
	c.t.Helper()
	dir, image := c.dataDir(harmed), filepath.Join(c.dir, "image")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		c.t.Fatal(err)
	}
	// Nodes in network namespaces have their own mounts, which follow those of a directory that is
	// mounted shared.
	command(c, "mount", "--bind", c.dir, c.dir)
	c.t.Cleanup(func() { _ = exec.Command("umount", "-l", c.dir).Run() })
	command(c, "mount", "--make-shared", c.dir)
	command(c, "truncate", "-s", "256M", image)
	command(c, "mkfs.ext4", "-q", "-F", image)
	command(c, "mount", "-o", "loop,errors=remount-ro", image, dir)
	c.t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
}

func command(c *servers, name string, args ...string) string {
	c.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// readOnlyDisk makes the kernel find an error in a node's file system. The file system goes
// read-only under open files, and only a check and a new mount repair it.
func (f *loadedCluster) readOnlyDisk() fault {
	f.awaitLeading(harmed)
	s, dir, image := f.c.nodes[harmed], f.c.dataDir(harmed), filepath.Join(f.c.dir, "image")
	return fault{
		name: "disk read-only", did: "ext4 of " + s.id + " finds an error (`trigger_fs_error`); after 15s the node is stopped, the disk checked, the node started",
		inject: func() {
			device := command(f.c, "findmnt", "-n", "-o", "SOURCE", dir)
			write(f.t, "/sys/fs/ext4/"+filepath.Base(device)+"/trigger_fs_error", "a test")
		},
		hold: 15 * time.Second, sick: []int{harmed}, rest: 5 * time.Second,
		heal: func() {
			f.down(harmed)
			s.kill()
			command(f.c, "umount", dir)
			_ = exec.Command("e2fsck", "-f", "-y", image).Run() // exit code 1: corrected something
			command(f.c, "mount", "-o", "loop,errors=remount-ro", image, dir)
			f.c.start(s)
			f.c.awaitReady(s, 20*time.Second)
			f.up(harmed)
		},
	}
}

// slowSync makes every sync of the leader's disk take a second longer. Every commit of the ranges
// that it leads takes as much longer, so callers need more patience than that.
func (f *loadedCluster) slowSync() fault {
	k, _ := f.leader()
	path := f.c.bentSync(f.c.nodes[k])
	return fault{
		name: "sync slow", did: "every fsync and fdatasync of the leader takes 1 s longer, for 20s; callers wait 10 s for a commit",
		inject: func() {
			f.banks.wait.Store(int64(10 * time.Second))
			write(f.t, path, "1000")
		},
		hold: 20 * time.Second, rest: 10 * time.Second,
		heal: func() {
			if err := os.Remove(path); err != nil {
				f.t.Error(err)
			}
			f.banks.wait.Store(int64(depositWait))
		},
	}
}

// tornLog kills a node and leaves its log as a crash in mid-commit does: half of the page that
// would have named the new state is noise, and so is the end of the file.
func (f *loadedCluster) tornLog() fault {
	s := f.c.nodes[harmed]
	return fault{
		name: "last record torn", did: "`kill -9` of " + s.id + ", the page of the commit to come and the end of the log overwritten with noise, started after 2s",
		inject: func() {
			s.kill()
			tearLog(f, f.glob("raft/log.db")[0])
		},
		hold: 2 * time.Second, heal: func() { f.c.start(s) }, silent: []int{harmed}, rest: 2 * time.Second,
	}
}

func (f *loadedCluster) glob(pattern string) []string {
	f.t.Helper()
	out, err := filepath.Glob(filepath.Join(f.c.dataDir(harmed), pattern))
	if err != nil || len(out) == 0 {
		f.t.Fatalf("%s: no such files (%v)", pattern, err)
	}
	return out
}

// tearLog damages the older of the two meta pages by which bbolt finds its state. The next commit
// would have written that page.
func tearLog(f *loadedCluster, path string) {
	f.t.Helper()
	const page, transaction = 4096, 16 + 48 // where a page stores the number of its commit
	b, err := os.ReadFile(path)
	if err != nil || len(b) < 2*page || hex.EncodeToString(b[16:20]) != "edda0ced" {
		f.t.Fatalf("%s is no bbolt file of pages of %d bytes: %v", path, page, err)
	}
	older := 0
	if number(b[transaction:]) > number(b[page+transaction:]) {
		older = page
	}
	rng := rand.New(rand.NewPCG(5, 5))
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(noise(rng, 64), int64(older)+40); err != nil {
		f.t.Fatal(err)
	}
	if _, err := file.WriteAt(noise(rng, 3000), int64(len(b))); err != nil {
		f.t.Fatal(err)
	}
}

func noise(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// number reads eight bytes as bbolt writes them on this machine.
func number(b []byte) (n uint64) {
	for i := range 8 {
		n |= uint64(b[i]) << (8 * i)
	}
	return n
}

// damagedSnapshots changes some bytes in the middle of every snapshot of a stopped node.
func (f *loadedCluster) damagedSnapshots() fault {
	const pattern = "snapshots/range-*/snapshots/*/state.bin"
	f.banks.pause.Store(int64(5 * time.Millisecond)) // so many entries that snapshots exist
	eventuallyEvery(f.t, time.Second, 6*time.Minute, "there is a snapshot of a range", func() error {
		if all, _ := filepath.Glob(filepath.Join(f.c.dataDir(harmed), pattern)); len(all) == 0 {
			return errors.New("none")
		}
		return nil
	})
	f.banks.pause.Store(int64(depositEvery))
	return f.damaged("snapshots damaged", "16 bytes in the middle of every snapshot changed", pattern, func(b []byte) []byte {
		for i := len(b) / 2; i < min(len(b), len(b)/2+16); i++ {
			b[i] ^= 0x5a
		}
		return b
	})
}

func (f *loadedCluster) damagedLog() fault {
	// The first two pages only say where the rest is; the second half of the file may still be
	// empty.
	return f.damaged("log cut off", "the log gone but for its first two pages", "raft/log.db", func(b []byte) []byte { return b[:2*os.Getpagesize()] })
}

// damaged damages files of a stopped node. The node must refuse to start and name the damaged file.
// Then damaged restores the files.
func (f *loadedCluster) damaged(name, did, pattern string, harm func(b []byte) []byte) fault {
	s, whole, hold := f.c.nodes[harmed], map[string][]byte{}, long(10*time.Second, time.Second)
	return fault{
		name: name, did: "`kill -9` of " + s.id + ", " + did + ": it refuses to start, and names the file; put back after " + hold.String(),
		inject: func() {
			s.kill()
			for _, path := range f.glob(pattern) {
				b, err := os.ReadFile(path)
				if err != nil {
					f.t.Fatal(err)
				}
				whole[path] = b
				write(f.t, path, string(harm(slices.Clone(b))))
			}
			f.c.start(s)
			select {
			case <-s.ended:
			case <-time.After(20 * time.Second):
				f.t.Errorf("%s: %s still runs", name, s.id)
				s.kill()
			}
			said := s.stderr.String()
			if code := exitCode(s.err); code <= 0 || !strings.Contains(said, "damaged") || !strings.Contains(said, s.dir) {
				f.t.Errorf("%s: exit code %d; want one above 0 and that it names what is damaged:\n%s", name, code, tail(said, 20))
			}
			f.t.Log(tail(strings.TrimSpace(said), 1))
		},
		hold: hold, silent: []int{harmed}, rest: 2 * time.Second,
		heal: func() {
			for path, b := range whole {
				write(f.t, path, string(b))
			}
			f.c.start(s)
		},
	}
}
