package raftgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/quorate/quorate/internal/syncdir"
)

func snapshotDir(dir string, group uint32) string {
	return filepath.Join(dir, "snapshots", GroupName(group))
}

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

// Keeps reports whether this node has files of a group, which need not be open. A group whose files are
// being deleted has none.
func (h *Host) Keeps(id uint32) bool {
	g, err := h.logs.Group(id)
	return err == nil && g.Holds()
}

// DropGroup closes a group and permanently deletes its log and snapshots. Use it on a replica
// that has been removed from its group: a voter that forgets its votes may vote twice. After a crash,
// the next New completes the deletion.
// The group may be opened again afterwards, with Join and an empty state machine.
func (h *Host) DropGroup(id uint32) error {
	h.files.Lock()
	defer h.files.Unlock()
	err := h.CloseGroup(id)
	if e := h.drop(id); e != nil {
		err = errors.Join(err, fmt.Errorf("raftgroup: drop group %s: %w", GroupName(id), e))
	}
	return err
}

// drop marks a closed group before it deletes anything. The next start therefore completes a
// deletion that a crash interrupted, and a group never opens with only part of its files.
func (h *Host) drop(id uint32) error {
	if err := h.reopenLog(); err != nil {
		return err
	}
	g, err := h.logs.Group(id)
	if err == nil {
		err = g.MarkDropped()
	}
	if err != nil {
		return err
	}
	return h.sweep(id)
}

// sweep deletes the snapshots of a marked group, its log and, last, the mark.
func (h *Host) sweep(id uint32) error {
	dir := snapshotDir(h.cfg.Dir, id)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := syncdir.Sync(filepath.Dir(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	g, err := h.logs.Group(id)
	if err != nil {
		return err
	}
	return g.Erase()
}

// sweepAll completes interrupted deletions.
func (h *Host) sweepAll() error {
	var errs []error
	for _, id := range h.logs.Dropped() {
		h.log.Info("completing the deletion of a group", "group", GroupName(id))
		if err := h.sweep(id); err != nil {
			errs = append(errs, fmt.Errorf("raftgroup: drop group %s: %w", GroupName(id), err))
		}
	}
	return errors.Join(errs...)
}
