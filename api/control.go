package api

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/grpc/metadata"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/auth"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// AuthorKeys are the gRPC metadata or HTTP headers that may name the author of a change if the call
// does not, in order of precedence.
var AuthorKeys = []string{"quorate-user", "x-forwarded-user"}

// LimitService keeps the limits of the cluster: it shows the current limits and their versions,
// and changes them.
type LimitService struct {
	quoratev1.UnimplementedLimitServiceServer
	*core
	node limitNode
}

// author returns the caller's name, and validates the name and the comment.
func author(ctx context.Context, given, comment string) (string, error) {
	if c := auth.From(ctx); c != nil { // a proven identity overrides what the caller says
		given = c.Identity
	}
	if md, ok := metadata.FromIncomingContext(ctx); ok && given == "" {
		for _, key := range AuthorKeys {
			if v := md.Get(key); len(v) > 0 && v[0] != "" {
				given = v[0]
				break
			}
		}
	}
	switch {
	case len(given) > quota.MaxNameLen:
		return "", apierr.Invalid("author", "is %d bytes; at most %d", len(given), quota.MaxNameLen)
	case !utf8.ValidString(given):
		return "", apierr.Invalid("author", "is not UTF-8")
	case len(comment) > quota.MaxCommentLen:
		return "", apierr.Invalid("comment", "is %d bytes; at most %d", len(comment), quota.MaxCommentLen)
	case !utf8.ValidString(comment):
		return "", apierr.Invalid("comment", "is not UTF-8")
	}
	return given, nil
}

// GetLimits returns the current limits, or the limits of a version.
func (s *LimitService) GetLimits(ctx context.Context, req *quoratev1.GetLimitsRequest) (*quoratev1.GetLimitsResponse, error) {
	version, list, err := s.limitsAt(ctx, req.Version)
	if err != nil {
		return nil, err
	}
	out := &quoratev1.GetLimitsResponse{Version: version}
	list = s.visible(ctx, list)
	for i := range list {
		out.Limits = append(out.Limits, apiproto.Limit(&list[i]))
	}
	if req.File {
		out.Yaml = string(s.Opts.FormatLimits(list))
	}
	return out, nil
}

// visible returns the limits of list that the caller may read.
func (s *LimitService) visible(ctx context.Context, list []quota.Limit) []quota.Limit {
	if s.Everywhere(ctx, rbac.LimitsRead) {
		return list
	}
	var out []quota.Limit
	for i := range list {
		if s.mayIn(ctx, rbac.LimitsRead, list[i].Namespace) {
			out = append(out, list[i])
		}
	}
	return out
}

// mayChange refuses a change that touches namespaces that the caller may not write, and names them.
// It adds the limits that the caller cannot see, and pins the change to the version that it
// compared with. Otherwise the change could undo a concurrent change by somebody without the
// permission to do so.
func (s *LimitService) mayChange(ctx context.Context, c *quota.Change) error {
	if s.Everywhere(ctx, rbac.LimitsWrite) {
		return nil
	}
	version, now, err := s.limitsAt(ctx, nil)
	if err != nil {
		return err
	}
	if c.Limits, err = s.withHidden(ctx, now, c.Limits); err != nil {
		return err
	}
	for _, change := range diffLimits(now, c.Limits) {
		if err := s.Require(ctx, rbac.LimitsWrite, change.Namespace); err != nil {
			if change.Kind != quoratev1.ChangeKind_CHANGE_KIND_REMOVED || !s.hides(ctx, change.Namespace) { // else the caller may not learn its name
				return apierr.More(err, fmt.Sprintf("; the call would change limit %s/%s", change.Namespace, change.Limit))
			}
			return err
		}
	}
	if c.Expect == quota.AnyVersion {
		c.Expect = expected(&version)
	}
	if c.Expect != expected(&version) {
		return apierr.From(&quota.ConflictError{Expected: c.Expect, Current: version})
	}
	return nil
}

// limitsAt returns the limits of a version; nil means the current version.
func (s *LimitService) limitsAt(ctx context.Context, version *uint64) (uint64, []quota.Limit, error) {
	set := s.node.Limits()
	if set == nil {
		set = &quota.Limits{}
	}
	if version == nil || *version == set.Version {
		return set.Version, set.All(), nil
	}
	v, list, err := s.node.LimitsAt(ctx, *version)
	if err != nil {
		return 0, nil, apierr.From(err)
	}
	return v.Number, list, nil
}

func expected(v *uint64) int64 {
	if v == nil {
		return quota.AnyVersion
	}
	return int64(min(*v, 1<<62))
}

// ApplyLimits replaces the cluster's limits with the limits of a limit file.
func (s *LimitService) ApplyLimits(ctx context.Context, req *quoratev1.ApplyLimitsRequest) (*quoratev1.ApplyLimitsResponse, error) {
	limits, err := s.parseLimits(req.Source, []byte(req.Yaml))
	if err != nil {
		return nil, err
	}
	by, err := author(ctx, req.Author, req.Comment)
	if err != nil {
		return nil, err
	}
	out := &quoratev1.ApplyLimitsResponse{Findings: s.lint(limits)}
	c := quota.Change{Limits: limits, Expect: expected(req.ExpectedVersion), By: by, Comment: req.Comment}
	if err := s.mayChange(ctx, &c); err != nil {
		return nil, err
	}
	if req.DryRun {
		return out, s.dryRun(ctx, c.Limits, req, out)
	}
	v, changed, err := s.change(ctx, c)
	if err != nil {
		return nil, err
	}
	s.Log.InfoContext(ctx, "limits applied", "source", req.Source, "version", v, "changed", changed, "limits", len(limits), "by", by)
	out.Version, out.Changed = v, changed
	return out, nil
}

func (s *LimitService) dryRun(ctx context.Context, limits []quota.Limit, req *quoratev1.ApplyLimitsRequest, out *quoratev1.ApplyLimitsResponse) error {
	version, now, err := s.limitsAt(ctx, nil)
	if err != nil {
		return err
	}
	if e := req.ExpectedVersion; e != nil && *e != version {
		return s.conflict(ctx, e, version)
	}
	out.Version, out.Changes = version, diffLimits(now, limits)
	out.Changed = len(out.Changes) > 0
	return nil
}

// conflict is the error of a call that expected another version than the current one.
func (s *LimitService) conflict(ctx context.Context, expects *uint64, version uint64) error {
	by := ""
	if last, err := s.node.LimitVersions(ctx, version+1, 1); err == nil && len(last) > 0 {
		by = last[0].By
	}
	return s.changeError(ctx, &quota.ConflictError{Expected: expected(expects), Current: version, By: by})
}

// changeError converts the error of a change. A conflict names the author only to callers that
// ListVersions names it to.
func (s *LimitService) changeError(ctx context.Context, err error) error {
	if conflict, ok := errors.AsType[*quota.ConflictError](err); ok && !s.Everywhere(ctx, rbac.LimitsRead) {
		if changes, _ := s.changesIn(ctx, conflict.Current); len(changes) == 0 {
			err = &quota.ConflictError{Expected: conflict.Expected, Current: conflict.Current}
		}
	}
	return apierr.From(err)
}

func (s *LimitService) change(ctx context.Context, c quota.Change) (version uint64, changed bool, err error) {
	v, changed, err := s.node.ChangeLimits(ctx, c)
	if err != nil {
		return 0, false, s.changeError(ctx, err)
	}
	return v.Number, changed, nil
}

func (s *LimitService) lint(limits []quota.Limit) []string {
	if s.Opts.Lint == nil {
		return nil
	}
	return s.Opts.Lint(limits)
}

// ValidateLimits returns the faults of a limit file.
func (s *LimitService) ValidateLimits(_ context.Context, req *quoratev1.ValidateLimitsRequest) (*quoratev1.ValidateLimitsResponse, error) {
	limits, err := s.parseLimits(req.Source, []byte(req.Yaml))
	if err != nil {
		if e := apierr.From(err); e.Reason == reasonFile {
			return &quoratev1.ValidateLimitsResponse{Faults: e.Detail}, nil
		}
		return nil, err
	}
	return &quoratev1.ValidateLimitsResponse{Valid: true, Findings: s.lint(limits), Limits: int32(len(limits))}, nil
}

// DiffLimits implements quoratev1.LimitServiceServer.
func (s *LimitService) DiffLimits(ctx context.Context, req *quoratev1.DiffLimitsRequest) (*quoratev1.DiffLimitsResponse, error) {
	from, err := s.sideOf(ctx, "from", req.From)
	if err != nil {
		return nil, err
	}
	to, err := s.sideOf(ctx, "to", req.To)
	if err != nil {
		return nil, err
	}
	return &quoratev1.DiffLimitsResponse{Changes: diffLimits(s.visible(ctx, from), s.visible(ctx, to))}, nil
}

// sideOf returns one side of a comparison, sorted.
func (s *LimitService) sideOf(ctx context.Context, field string, side *quoratev1.LimitSet) ([]quota.Limit, error) {
	if side.GetYaml() == "" {
		var version *uint64
		if side != nil {
			version = side.Version
		}
		_, list, err := s.limitsAt(ctx, version)
		return list, err
	}
	if side.Version != nil {
		return nil, apierr.Invalid(field, "has version %d and a file; give one of them", *side.Version)
	}
	list, err := s.parseLimits(side.Source, []byte(side.Yaml))
	if err != nil {
		e := *apierr.From(err)
		e.Field = field + ".yaml"
		return nil, &e
	}
	return list, nil
}
