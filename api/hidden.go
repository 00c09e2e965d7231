package api

import (
	"context"
	"slices"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// hides reports whether the caller of ctx may neither read nor write the limits of a namespace.
func (s *LimitService) hides(ctx context.Context, namespace string) bool {
	return !s.mayIn(ctx, rbac.LimitsRead, namespace) && !s.mayIn(ctx, rbac.LimitsWrite, namespace)
}

// shown returns the limits of list that are not in a hidden namespace.
func (s *LimitService) shown(ctx context.Context, list []quota.Limit) []quota.Limit {
	return slices.DeleteFunc(slices.Clone(list), func(l quota.Limit) bool { return s.hides(ctx, l.Namespace) })
}

// withHidden returns next, sorted, and adds the current limits of each hidden namespace that next
// does not mention. A caller cannot know those limits, so leaving them out does not remove them.
func (s *LimitService) withHidden(ctx context.Context, now, next []quota.Limit) ([]quota.Limit, error) {
	named := map[string]bool{}
	for i := range next {
		named[next[i].Namespace] = true
	}
	all := slices.Clone(next)
	for i := range now {
		if ns := now[i].Namespace; !named[ns] && s.hides(ctx, ns) {
			all = append(all, now[i])
		}
	}
	set, err := quota.NewLimits(0, all)
	if err != nil {
		return nil, invalidFile(err)
	}
	return set.All(), nil
}

// veil reduces a version to the part that the caller of ctx may read: how many limits changed
// there, and, if any did, the author and the comment.
func (s *LimitService) veil(ctx context.Context, v *quoratev1.LimitVersion) {
	changes, limits := s.changesIn(ctx, v.Version)
	v.Limits, v.Added, v.Changed, v.Removed = int32(limits), 0, 0, 0
	for _, c := range changes {
		switch c.Kind {
		case quoratev1.ChangeKind_CHANGE_KIND_ADDED:
			v.Added++
		case quoratev1.ChangeKind_CHANGE_KIND_CHANGED:
			v.Changed++
		case quoratev1.ChangeKind_CHANGE_KIND_REMOVED:
			v.Removed++
		}
	}
	if len(changes) == 0 {
		v.Author, v.Comment, v.RollbackTo = "", "", 0
	}
}

// changesIn returns the changes of a version that the caller may read, and the number of its limits
// that the caller may read. If the version before is no longer kept, the changes are unknown.
func (s *LimitService) changesIn(ctx context.Context, version uint64) ([]*quoratev1.LimitChange, int) {
	_, after, err := s.limitsAt(ctx, &version)
	if err != nil {
		return nil, 0
	}
	after = s.visible(ctx, after)
	var before []quota.Limit
	if version > 1 {
		earlier := version - 1
		if _, before, err = s.limitsAt(ctx, &earlier); err != nil {
			return nil, len(after)
		}
	}
	return diffLimits(s.visible(ctx, before), after), len(after)
}
