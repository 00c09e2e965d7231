package console

import "github.com/quorate/quorate/internal/rbac"

// registry lists the pages, in the order of the navigation. A new page is a line here, a
// file with its Go and one with its template.
func registry(Deps) []Page {
	return append([]Page{
		{Path: "", Title: "Overview", Group: "Cluster", Template: "overview", Need: rbac.ClusterRead, Load: loadOverview, Live: []string{"health", "flow", "ranges", "bound"}, Every: overviewEvery, Points: overviewPoints},
	}, limitsPages()...)
}
