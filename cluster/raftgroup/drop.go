package raftgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quorate/quorate/cluster/datadir"
	"github.com/quorate/quorate/internal/quota"
)

// droppedSuffix marks groups whose files are being deleted. DropFiles creates the mark first and
// removes it last. The next start therefore completes a deletion that a crash interrupted, and a
// group never opens with only part of its files.
const droppedSuffix = ".dropped"

func logFile(dir, name string) string { return filepath.Join(dir, "raft", name+".db") }

// Exists reports whether a directory contains the log of a group.
func Exists(dir, name string) bool {
	_, err := os.Stat(logFile(dir, name))
	return err == nil
}

func snapshotDir(dir, name string) string { return filepath.Join(dir, "snapshots", name) }

// CloseGroup stops this node's replica of a group and keeps its files; a later Open continues
// from them. It does not transfer leadership. Closing a group that is not open is not an error.
// The group's callbacks must not call it.
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

// DropGroup closes a group and permanently deletes its log and snapshots. Use it on a replica
// that has been removed from its group: a voter that forgets its votes may vote twice. The group
// must have been opened since the host started; use DropFiles otherwise. After a crash, the next
// New completes the deletion. The group may be opened again afterwards, with Join and an empty
// state machine.
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

// DropFiles deletes the log and the snapshots of a group that is not open. See DropGroup. A group
// without files is not an error.
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
	if err := datadir.SyncDir(filepath.Dir(mark)); err != nil {
		return fmt.Errorf("raftgroup: drop group %s: %w", name, err)
	}
	return h.sweep(name)
}

// sweep deletes the files of a marked group, then the mark.
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

// sweepAll completes interrupted deletions.
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

// Names returns the sorted names of the groups with files on this node, open or not.
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
