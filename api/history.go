package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// Bounds of a page of versions, and of the repetitions of a change without an expected version.
const (
	defaultVersions = 20
	maxConflicts    = 5 // repetitions
)

// ListVersions implements quoratev1.LimitServiceServer.
func (s *LimitService) ListVersions(ctx context.Context, req *quoratev1.ListVersionsRequest) (*quoratev1.ListVersionsResponse, error) {
	most, err := pageSize(req.Max, defaultVersions)
	if err != nil {
		return nil, err
	}
	list, err := s.node.LimitVersions(ctx, req.Before, most)
	if err != nil {
		return nil, apierr.From(err)
	}
	out := &quoratev1.ListVersionsResponse{}
	for i := range list {
		out.Versions = append(out.Versions, versionProto(&list[i]))
		if !s.Everywhere(ctx, rbac.LimitsRead) {
			s.veil(ctx, out.Versions[i])
		}
	}
	return out, nil
}

// pageSize validates the size of a page and returns it, or the default for 0.
func pageSize(most int32, usual int) (int, error) {
	if most < 0 || most > apiproto.MaxList {
		return 0, apierr.Invalid("max", "%d; must be 1 to %d, or 0 for %d", most, apiproto.MaxList, usual)
	}
	if most == 0 {
		return usual, nil
	}
	return int(most), nil
}

func versionProto(v *quota.Version) *quoratev1.LimitVersion {
	return &quoratev1.LimitVersion{
		Version: v.Number, At: apiproto.Time(v.At), Author: v.By, Comment: v.Comment, RollbackTo: v.RollbackTo,
		Limits: int32(v.Limits), Added: int32(v.Added), Changed: int32(v.Changed), Removed: int32(v.Removed),
	}
}

// RollbackLimits implements quoratev1.LimitServiceServer.
func (s *LimitService) RollbackLimits(ctx context.Context, req *quoratev1.RollbackLimitsRequest) (*quoratev1.RollbackLimitsResponse, error) {
	if req.Version == 0 {
		return nil, apierr.Invalid("version", "is 0; must be the version to bring back, 1 or more")
	}
	by, err := author(ctx, req.Author, req.Comment)
	if err != nil {
		return nil, err
	}
	_, list, err := s.node.LimitsAt(ctx, req.Version)
	if err != nil {
		return nil, apierr.From(err)
	}
	c := quota.Change{Limits: s.shown(ctx, list), Expect: expected(req.ExpectedVersion), By: by, Comment: req.Comment, RollbackTo: req.Version}
	if err := s.mayChange(ctx, &c); err != nil {
		return nil, err
	}
	if len(diffLimits(list, c.Limits)) > 0 { // the limits of others stay as they are, so the result differs from that version
		c.RollbackTo = 0
	}
	v, changed, err := s.change(ctx, c)
	if err != nil {
		return nil, err
	}
	s.Log.InfoContext(ctx, "limits rolled back", "to", req.Version, "version", v, "by", by)
	return &quoratev1.RollbackLimitsResponse{Version: v, Changed: changed}, nil
}

// DeleteLimits removes limits from the current ones. Without an expected version it starts over
// when a concurrent change wins.
func (s *LimitService) DeleteLimits(ctx context.Context, req *quoratev1.DeleteLimitsRequest) (*quoratev1.DeleteLimitsResponse, error) {
	if n := len(req.Limits); n < 1 || n > apiproto.MaxList {
		return nil, apierr.Invalid("limits", "%d limits; must be 1 to %d", n, apiproto.MaxList)
	}
	by, err := author(ctx, req.Author, req.Comment)
	if err != nil {
		return nil, err
	}
	for _, l := range req.Limits {
		if err := s.Require(ctx, rbac.LimitsWrite, l.GetNamespace()); err != nil {
			return nil, err
		}
	}
	if e := req.ExpectedVersion; e != nil {
		s.catchUp(ctx, *e)
	}
	for try := 1; ; try++ {
		version, left, err := s.without(req.Limits)
		if err != nil {
			return nil, err
		}
		if e := req.ExpectedVersion; e != nil && *e != version { // left would undo what the expected version has changed
			return nil, s.conflict(ctx, e, version)
		}
		v, _, err := s.node.ChangeLimits(ctx, quota.Change{Limits: left, Expect: expected(&version), By: by, Comment: req.Comment})
		var conflict *quota.ConflictError
		if errors.As(err, &conflict) && req.ExpectedVersion == nil && try < maxConflicts {
			if !s.catchUp(ctx, conflict.Current) {
				return nil, apierr.From(ctx.Err())
			}
			continue
		}
		if err != nil {
			return nil, s.changeError(ctx, err)
		}
		return &quoratev1.DeleteLimitsResponse{Version: v.Number}, nil
	}
}

// catchUpTime is the interval at which catchUp polls this node's version.
const catchUpTime = 5 * time.Millisecond

// catchUp waits up to one second for this node to reach a version, and reports whether it did.
func (s *LimitService) catchUp(ctx context.Context, version uint64) bool {
	for range time.Second / catchUpTime {
		if l := s.node.Limits(); l != nil && l.Version >= version {
			return true
		}
		if backoff.Sleep(ctx, catchUpTime) != nil {
			return false
		}
	}
	return true
}

// without returns the current limits except refs, and their version.
func (s *LimitService) without(refs []*quoratev1.LimitRef) (version uint64, left []quota.Limit, err error) {
	version, all, err := s.limitsAt(context.Background(), nil)
	if err != nil {
		return 0, nil, err
	}
	left = slices.Clone(all)
	for i, ref := range refs {
		name := quota.LimitName{Namespace: ref.GetNamespace(), Limit: ref.GetLimit()}
		at := slices.IndexFunc(left, func(l quota.Limit) bool { return l.LimitName == name })
		if at < 0 {
			f := s.noSuchLimit(name)
			f.Field = fmt.Sprintf("limits[%d]", i)
			return 0, nil, f
		}
		left = slices.Delete(left, at, at+1)
	}
	if _, err := quota.NewLimits(version, left); err != nil {
		return 0, nil, apierr.Invalid("limits", "%v", err)
	}
	return version, left, nil
}
