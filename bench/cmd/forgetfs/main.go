// Command forgetfs mounts disks that lose power, for the tests of whole nodes:
//
//	forgetfs [-sync DURATION] DIR...
//
// With -sync, a sync takes that much longer, until the disk is cut.
//
// It reads commands from its standard input, a line each, and answers with a line:
//
//	arm STEPS DISK...  cut the disks, numbered from 0, after that many changes and syncs of all of them
//	                   together; "armed" now, and "cut" when it happens
//	cut                cut the armed disks now, if they are not cut yet; "cut"
//	release            fail the calls that wait on the cut disks; "released". After a minute this happens
//	                   by itself, so that a test that has failed by then can end its processes
//	lose SEED          set the cut disks back to what a power failure may leave, and mount them again;
//	                   "lost", and how much
//
// At the end of its input it unmounts everything.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/bench/forgetfs"
)

func main() {
	sync := flag.Duration("sync", 0, "how much longer a sync takes")
	flag.Parse()
	if err := run(*sync, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "forgetfs:", err)
		os.Exit(1)
	}
}

// machine is all disks.
type machine struct {
	dirs    []string
	disks   []*forgetfs.Disk
	unmount []func() error
	armed   []int
	supply  *forgetfs.Supply // of the armed disks

	out sync.Mutex
}

func run(sync time.Duration, dirs []string) error {
	m := &machine{dirs: dirs, disks: make([]*forgetfs.Disk, len(dirs)), unmount: make([]func() error, len(dirs))}
	defer m.end()
	for i := range dirs {
		d := forgetfs.NewDisk()
		d.SyncTakes = sync
		if err := m.mount(i, d); err != nil {
			return fmt.Errorf("mount at %s: %w", dirs[i], err)
		}
	}
	m.say("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if err := m.command(strings.Fields(in.Text())); err != nil {
			return fmt.Errorf("%s: %w", in.Text(), err)
		}
	}
	return in.Err()
}

func (m *machine) end() {
	for _, unmount := range m.unmount {
		if unmount != nil {
			_ = unmount()
		}
	}
}

func (m *machine) mount(i int, d *forgetfs.Disk) (err error) {
	m.disks[i] = d
	m.unmount[i], err = forgetfs.Mount(m.dirs[i], d)
	return err
}

func (m *machine) say(format string, args ...any) {
	m.out.Lock()
	defer m.out.Unlock()
	fmt.Printf(format+"\n", args...)
}

func (m *machine) command(words []string) error {
	if len(words) == 0 {
		return errors.New("no command")
	}
	var numbers []int
	for _, w := range words[1:] {
		n, err := strconv.Atoi(w)
		if err != nil {
			return err
		}
		numbers = append(numbers, n)
	}
	switch {
	case words[0] == "arm" && len(numbers) > 1:
		m.arm(numbers[0], numbers[1:])
	case m.supply == nil:
		return errors.New("no disk is armed")
	case words[0] == "cut":
		m.supply.Cut()
	case words[0] == "release":
		m.supply.Release()
		m.say("released")
	case words[0] == "lose" && len(numbers) == 1:
		return m.lose(uint64(numbers[0]))
	default:
		return errors.New("unknown command")
	}
	return nil
}

func (m *machine) arm(steps int, numbers []int) {
	var disks []*forgetfs.Disk
	for _, i := range numbers {
		disks = append(disks, m.disks[i])
	}
	m.armed = numbers
	m.say("armed")
	cut := make(chan struct{})
	supply := forgetfs.NewSupply(disks, steps, func() {
		m.say("cut")
		close(cut)
	})
	m.supply = supply
	go func() {
		<-cut
		time.Sleep(time.Minute)
		supply.Release()
	}()
}

func (m *machine) lose(seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 0))
	var sum forgetfs.Lost
	for _, i := range m.armed { // their processes have ended
		if err := m.unmount[i](); err != nil {
			return err
		}
		left, lost := m.disks[i].Lose(rng)
		sum.Add(lost)
		if err := m.mount(i, left); err != nil {
			return err
		}
	}
	m.say("lost %d %d %d %d", sum.Sectors, sum.Sizes, sum.Names, sum.Kept)
	return nil
}
