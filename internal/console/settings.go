package console

import (
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/rbac"
)

func settingsPage(d Deps) Page {
	return Page{
		Path: "settings", Title: "Version and settings", Group: "Operations", Template: "settings", Need: rbac.ClusterRead,
		Load: func(r *Request) (any, error) { return loadSettings(r, d.Settings) }, Live: []string{"versions"}, Every: 5 * liveEvery,
	}
}

type settingsView struct {
	Status   *quoratev1.GetStatusResponse
	Settings []Setting
	Mixed    bool // not all nodes run the same version
}

func loadSettings(r *Request, list []Setting) (any, error) {
	st, err := r.Cluster.GetStatus(r.Context(), &quoratev1.GetStatusRequest{})
	if err != nil {
		return nil, err
	}
	v := &settingsView{Status: st, Settings: list}
	for _, n := range st.Nodes {
		v.Mixed = v.Mixed || n.Version != "" && n.Version != st.Version
	}
	return v, nil
}
