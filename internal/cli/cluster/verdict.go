package cluster

import (
	"slices"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/health"
)

func colourOf(v health.Verdict) string {
	switch v.Word {
	case health.Healthy:
		return render.Green
	case health.NotReady:
		return render.Red
	}
	return render.Yellow
}

// addVerdict writes into a status what the table says: how the cluster is, and what each
// node says of its own readiness.
func addVerdict(st *quoratev1.GetStatusResponse, list []health.Said, v health.Verdict) {
	st.Health, st.HealthText, st.Ready = v.Word, v.Text, false
	for _, n := range st.Nodes {
		n.Ready, n.Reason = nil, ""
	}
	led := false
	for _, s := range list {
		st.Ready = st.Ready || s.Fault == "" && s.Reason == ""
		led = led || s.Fault == "" && s.Leaderless == ""
		i := slices.IndexFunc(st.Nodes, func(n *quoratev1.NodeStatus) bool { return n.Id == s.Node })
		if i < 0 {
			continue
		}
		if st.Nodes[i].Reason = s.Reason; s.Fault == "" {
			st.Nodes[i].Ready = new(s.Reason == "")
		}
	}
	if st.Ready {
		st.Reason = ""
	}
	if led {
		st.Leaderless = ""
	}
}
