package raftgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

// droppedSuffix marks groups whose files are being deleted. The mark is made
// first and removed last, so a deletion that a crash has cut short is completed
// at the next start, and the group never opens with half of its files.
const droppedSuffix = ".dropped"

func logFile(dir, name string) string { return filepath.Join(dir, "raft", name+".db") }

// Exists says whether a directory has the log of a group.
func Exists(dir, name string) bool {
	_, err := os.Stat(logFile(dir, name))
	return err == nil
}

func snapshotDir(dir, name string) string { return filepath.Join(dir, "snapshots", name) }

// CloseGroup stops this node's replica of a group and keeps its files: a later
// Open goes on where it stopped. Leadership is not handed over. A group that is
// not open is no error. The group's callbacks must not call it.
func (h *Host) CloseGroup(id uint32) error {
	g := h.Group(id)
	if g == nil {
		return nil
	}
	err := g.close()
	h.mu.Lock()
	if h.groups[id] == g {
		delete(h.groups, id)
		h.gone[id] = true
	}
	list := h.parked[id]
	delete(h.parked, id)
	h.mu.Unlock()
	for _, p := range list {
		p.answer(errorFrame(noGroup))
	}
	return err
}

// DropGroup closes a group and deletes its log and its snapshots, for good. Use
// it on a replica that has been removed from its group: a voter that forgets
// its votes may vote twice. It works for a group that has been opened since the
// start; see DropFiles for others. A crash meanwhile is made up for by the next
// New. Afterwards the group may be opened again, with Join and an empty state
// machine.
func (h *Host) DropGroup(id uint32) error {
	h.mu.RLock()
	name := h.names[id]
	h.mu.RUnlock()
	if name == "" {
		return fmt.Errorf("raftgroup: group %d has not been opened, so its files are not known", id)
	}
	h.files.Lock()
	defer h.files.Unlock()
	return errors.Join(h.CloseGroup(id), h.dropFiles(name))
}

// DropFiles deletes the log and the snapshots of a group that is not open. See
// DropGroup. A group without files is no error.
func (h *Host) DropFiles(name string) error {
	h.files.Lock()
	defer h.files.Unlock()
	return h.dropFiles(name)
}

func (h *Host) dropFiles(name string) error {
	if err := quota.CheckName("name", name); err != nil {
		return fmt.Errorf("raftgroup: %w", err)
	}
	for _, g := range h.all() {
		if g.opts.Name == name {
			return fmt.Errorf("raftgroup: group %s is open; close it first", name)
		}
	}
	mark := filepath.Join(h.cfg.Dir, "raft", name+droppedSuffix)
	if err := os.MkdirAll(filepath.Dir(mark), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return fmt.Errorf("raftgroup: drop group %s: %w", name, err)
	}
	if err := syncDir(filepath.Dir(mark)); err != nil {
		return fmt.Errorf("raftgroup: drop group %s: %w", name, err)
	}
	return h.sweep(name)
}

// sweep deletes what a mark says.
func (h *Host) sweep(name string) error {
	err := errors.Join(os.RemoveAll(logFile(h.cfg.Dir, name)), os.RemoveAll(logFile(h.cfg.Dir, name)+".new"), os.RemoveAll(snapshotDir(h.cfg.Dir, name)))
	if err == nil {
		err = os.Remove(filepath.Join(h.cfg.Dir, "raft", name+droppedSuffix))
	}
	if err != nil {
		return fmt.Errorf("raftgroup: drop group %s: %w", name, err)
	}
	return nil
}

// sweepAll completes deletions that were cut short.
func (h *Host) sweepAll() error {
	entries, err := os.ReadDir(filepath.Join(h.cfg.Dir, "raft"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), droppedSuffix); ok {
			h.log.Info("completing the deletion of a group", "group", name)
			errs = append(errs, h.sweep(name))
		}
	}
	return errors.Join(errs...)
}

// Names returns the names of the groups that have files here, open or not,
// sorted.
func (h *Host) Names() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(h.cfg.Dir, "raft"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".db"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
