package console

import (
	"strconv"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/rbac"
)

const versionsOnPage = 30

// versionList is the data of the page of versions: the history, or the changes of one version.
type versionList struct {
	Current  uint64
	Versions []*quoratev1.LimitVersion
	Pager    Pager
	One      *quoratev1.LimitVersion
	Changes  Diff
	Summary  string
	MayWrite bool
}

func loadVersions(r *Request) (any, error) {
	v := &versionList{MayWrite: r.May(rbac.LimitsWrite)}
	newest, err := r.Limits.ListVersions(r.Context(), &quoratev1.ListVersionsRequest{Max: 1})
	if err != nil {
		return nil, err
	}
	if len(newest.Versions) > 0 {
		v.Current = newest.Versions[0].Version
	}
	if one, err := strconv.ParseUint(r.Query("version"), 10, 63); err == nil {
		err := v.loadOne(r, one)
		return v, err
	}
	before, _ := strconv.ParseUint(r.Query("before"), 10, 63)
	res, err := r.Limits.ListVersions(r.Context(), &quoratev1.ListVersionsRequest{Before: before, Max: versionsOnPage})
	if err != nil {
		return nil, err
	}
	v.Versions = res.Versions
	v.Pager.Label = "Pages of the history"
	if n := len(v.Versions); n == versionsOnPage && v.Versions[n-1].Version > 1 {
		v.Pager.Next = Root + "/versions?before=" + strconv.FormatUint(v.Versions[n-1].Version, 10)
	}
	if before > 0 {
		v.Pager.Prev = Root + "/versions"
		if b := before + versionsOnPage; b <= v.Current {
			v.Pager.Prev += "?before=" + strconv.FormatUint(b, 10)
		}
	}
	return v, nil
}

// loadOne loads the changes of a version.
func (v *versionList) loadOne(r *Request, number uint64) error {
	list, err := r.Limits.ListVersions(r.Context(), &quoratev1.ListVersionsRequest{Before: number + 1, Max: 1})
	if err != nil {
		return err
	}
	if len(list.Versions) == 0 || list.Versions[0].Version != number {
		return &Problem{Status: 404, Title: "Unknown version", Detail: "The history does not have version " + strconv.FormatUint(number, 10) + "."}
	}
	v.One = list.Versions[0]
	diff, err := r.Limits.DiffLimits(r.Context(), &quoratev1.DiffLimitsRequest{From: versionBefore(number), To: &quoratev1.LimitSet{Version: &number}})
	if err != nil {
		return err
	}
	v.Changes, v.Summary = changesDiff(diff.Changes), changesText(diff.Changes)
	return nil
}

// versionBefore returns the limits before a version: none before the first.
func versionBefore(number uint64) *quoratev1.LimitSet {
	if number <= 1 {
		return &quoratev1.LimitSet{Yaml: "version: 1\nnamespaces: {}\n"}
	}
	number--
	return &quoratev1.LimitSet{Version: &number}
}

// rollback restores a version.
var rollback = Action{
	Confirm: func(r *Request) (*Confirmation, error) {
		to := formVersion(r, "version")
		if to == nil {
			return nil, &Problem{Status: 400, Title: "Which version?", Detail: "The version is missing."}
		}
		now, err := r.Limits.ListVersions(r.Context(), &quoratev1.ListVersionsRequest{Max: 1})
		if err != nil {
			return nil, err
		}
		var current uint64
		if len(now.Versions) > 0 {
			current = now.Versions[0].Version
		}
		diff, err := r.Limits.DiffLimits(r.Context(), &quoratev1.DiffLimitsRequest{To: &quoratev1.LimitSet{Version: to}})
		if err != nil {
			return nil, err
		}
		number := strconv.FormatUint(*to, 10)
		will := []string{"The limits of version " + number + " become a new version; the history stays.", changesText(diff.Changes) + " No bucket is refilled."}
		if !r.mayEverywhere(rbac.LimitsRead) {
			will = append(will, "Namespaces that you cannot read and write do not change.")
		}
		return &Confirmation{
			Title: "Roll back to version " + number, Button: "Roll back", Danger: true, Diff: changesDiff(diff.Changes), Will: will,
			Fields: append(Hidden(r, "version"), Field{Name: "current", Type: "hidden", Value: strconv.FormatUint(current, 10)}, commentField(r)),
		}, nil
	},
	Do: func(r *Request) (*Result, error) {
		to := formVersion(r, "version")
		if to == nil {
			return nil, &Problem{Status: 400, Title: "Which version?", Detail: "The version is missing."}
		}
		res, err := r.Limits.RollbackLimits(r.Context(), &quoratev1.RollbackLimitsRequest{Version: *to, ExpectedVersion: formVersion(r, "current"), Comment: r.PostForm.Get("comment")})
		if err != nil {
			return nil, err
		}
		return applied("Rolled back", res.Version, res.Changed, "versions"), nil
	},
}
