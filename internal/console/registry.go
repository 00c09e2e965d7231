package console

import (
	"slices"

	"github.com/quorate/quorate/internal/rbac"
)

// registry lists the pages in the order of the navigation. A new page needs a line here, a Go file
// and a template.
func registry(d Deps) []Page {
	return slices.Concat([]Page{
		{Path: "", Title: "Overview", Group: "Cluster", Template: "overview", Need: rbac.ClusterRead, Load: loadOverview, Live: []string{"health", "flow", "ranges", "bound"}, Every: overviewEvery, Points: overviewPoints, Data: map[string]func(*Request) (any, error){"flow": flowData}},
		nodesPage(),
	}, limitsPages(), accountPages(), []Page{
		eventsPage(),
		settingsPage(d),
		accessPage(),
		auditPage(),
	})
}
