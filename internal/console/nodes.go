package console

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/rbac"
)

func nodesPage() Page {
	return Page{
		Path: "nodes", Title: "Nodes and ranges", Group: "Cluster", Template: "nodes", Need: rbac.ClusterRead, Load: loadNodes,
		Live: []string{"nodes", "plan", "groups"},
		Actions: map[string]Action{
			"drain":      changeOf(quoratev1.NodeChange_NODE_CHANGE_DRAIN),
			"activate":   changeOf(quoratev1.NodeChange_NODE_CHANGE_ACTIVATE),
			"leave":      changeOf(quoratev1.NodeChange_NODE_CHANGE_LEAVE),
			"remove":     changeOf(quoratev1.NodeChange_NODE_CHANGE_REMOVE),
			"transfer":   {Confirm: confirmTransfer, Do: doTransfer},
			"join-token": {Confirm: confirmJoinToken, Do: doJoinToken},
		},
	}
}

// nodesView is the data of the page of nodes: at most 256 nodes and 256 ranges.
type nodesView struct {
	Status  *quoratev1.GetStatusResponse
	Plan    *quoratev1.GetPlanResponse
	NoPlan  *Problem
	Without []string
	May     bool // may change anything
	Done    int  // groups with the wanted placement
}

func loadNodes(r *Request) (any, error) {
	st, err := r.Cluster.GetStatus(r.Context(), &quoratev1.GetStatusRequest{})
	if err != nil {
		return nil, err
	}
	v := &nodesView{Status: st, May: r.May(rbac.ClusterAdmin)}
	if w := r.Query("without"); w != "" {
		v.Without = []string{w}
	}
	if v.Plan, err = r.Cluster.GetPlan(r.Context(), &quoratev1.GetPlanRequest{Without: v.Without}); err != nil {
		v.NoPlan = problemOf(err)
	} else {
		v.Done = max(0, int(v.Plan.Total)-len(v.Plan.Groups))
	}
	return v, nil
}

// Active reports whether a node is in its normal state.
func (v *nodesView) Active(n *quoratev1.NodeStatus) bool {
	return n.State <= quoratev1.NodeState_NODE_STATE_ACTIVE
}

// changes describes what each change of a node does.
var changes = map[quoratev1.NodeChange]struct {
	title, button, done string
	will                []string
	danger              bool
}{
	quoratev1.NodeChange_NODE_CHANGE_DRAIN: {
		title: "Drain %s?", button: "Drain %s", done: "%s is draining",
		will: []string{"It hands over the %d ranges that it leads, and leads nothing more.", "It takes no more replicas and keeps the %d that it has, so nothing is copied.", "It goes on deciding for its clients.", "Activate ends the drain."},
	},
	quoratev1.NodeChange_NODE_CHANGE_ACTIVATE: {
		title: "Activate %s?", button: "Activate %s", done: "%s is active",
		will: []string{"It may lead ranges again (%d now) and takes replicas (%d now).", "A leave that is not over ends, and what has moved comes back."},
	},
	quoratev1.NodeChange_NODE_CHANGE_LEAVE: {
		title: "Let %s leave the cluster?", button: "Let %s leave", done: "%s is leaving", danger: true,
		will: []string{"It hands over the %d ranges that it leads.", "Its %d replicas move to others, one step at a time; then its process ends.", "Until that is over, Activate keeps it."},
	},
	quoratev1.NodeChange_NODE_CHANGE_REMOVE: {
		title: "Remove %s for ever?", button: "Remove %s", done: "%s is removed", danger: true,
		will: []string{"Nothing waits for it: it led %d ranges.", "Its %d replicas are made anew on others.", "It cannot come back with its data. This is for a node that is dead."},
	},
}

// changeOf returns the action that changes the wanted state of a node.
func changeOf(change quoratev1.NodeChange) Action {
	words := changes[change]
	confirm := func(r *Request) (*Confirmation, error) {
		id := r.PostForm.Get("node")
		st, err := r.Cluster.GetStatus(r.Context(), &quoratev1.GetStatusRequest{})
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(st.Nodes, func(n *quoratev1.NodeStatus) bool { return n.Id == id })
		if i < 0 {
			return nil, &Problem{Status: 404, Title: "There is no such node", Detail: "The cluster has no node " + strconv.Quote(phrase.Clip(id, 128)) + "."}
		}
		n := st.Nodes[i]
		c := &Confirmation{Title: fmt.Sprintf(words.title, id), Button: fmt.Sprintf(words.button, id), Danger: words.danger, Fields: Hidden(r, "node")}
		counts := []any{n.Leads, n.Replicas}
		for _, w := range words.will {
			if strings.Contains(w, "%d") {
				holes := strings.Count(w, "%d")
				w = fmt.Sprintf(w, counts[:holes]...)
				counts = counts[holes:]
			}
			c.Will = append(c.Will, w)
		}
		c.Will = append(c.Will, moves(r, change, id)...)
		if change == quoratev1.NodeChange_NODE_CHANGE_LEAVE {
			c.Fields = append(c.Fields, Field{Name: "force", Label: "Even if ranges then have too few voters", Type: "checkbox", Value: r.PostForm.Get("force"), Hint: "Otherwise it is refused where ranges would have fewer voters than replicas asks for."})
		}
		return c, nil
	}
	do := func(r *Request) (*Result, error) {
		id := r.PostForm.Get("node")
		res, err := r.Cluster.ChangeNode(r.Context(), &quoratev1.ChangeNodeRequest{Node: id, Change: change, Force: change == quoratev1.NodeChange_NODE_CHANGE_LEAVE && r.PostForm.Get("force") != ""})
		if err != nil {
			return nil, err
		}
		lines := []string{"The change is committed; what follows goes on by itself, and the page shows it."}
		goes := change == quoratev1.NodeChange_NODE_CHANGE_LEAVE || change == quoratev1.NodeChange_NODE_CHANGE_REMOVE
		if res.Moves > 0 && goes { // of others, who is to lead changes, and no replica moves
			lines = append(lines, fmt.Sprintf("%d replicas are to move.", res.Moves))
		}
		if res.Warning != "" {
			lines = append(lines, "Careful: "+res.Warning+".")
		}
		return &Result{Title: fmt.Sprintf(words.done, id), Lines: lines}, nil
	}
	return Action{Confirm: confirm, Do: do}
}

// moves says how many groups change when a node leaves.
func moves(r *Request, change quoratev1.NodeChange, id string) []string {
	if change != quoratev1.NodeChange_NODE_CHANGE_LEAVE && change != quoratev1.NodeChange_NODE_CHANGE_REMOVE {
		return nil
	}
	plan, err := r.Cluster.GetPlan(r.Context(), &quoratev1.GetPlanRequest{Without: []string{id}})
	if err != nil {
		return []string{"What would move cannot be told just now: " + problemOf(err).Detail}
	}
	return []string{fmt.Sprintf("%d of %d groups are to change.", len(plan.Groups), plan.Total)}
}

func confirmTransfer(r *Request) (*Confirmation, error) {
	from, one := r.PostForm.Get("from"), r.PostForm.Get("range")
	st, err := r.Cluster.GetStatus(r.Context(), &quoratev1.GetStatusRequest{})
	if err != nil {
		return nil, err
	}
	to := Field{Name: "to", Label: "To", Type: "select", Value: r.PostForm.Get("to"), Hint: "Any is whichever of their voters is best.", Options: []Option{{"", "any"}}}
	for _, n := range st.Nodes {
		if n.Id != from && n.Connected {
			to.Options = append(to.Options, Option{n.Id, n.Id})
		}
	}
	c := &Confirmation{Title: "Hand over what " + from + " leads?", Button: "Hand over", Fields: append(Hidden(r, "from", "range"), to)}
	what := "All ranges that " + from + " leads go"
	if one != "" {
		c.Title, what = "Hand over range "+one+"?", "Range "+one+" goes"
	}
	c.Will = []string{
		what + " to another of their voters, one after the other, each in a few milliseconds.",
		"Decisions go on meanwhile: nodes spend what they hold.",
		"Balancing may bring leaderships back to " + from + " after a while; drain it if they are to stay away.",
	}
	return c, nil
}

func doTransfer(r *Request) (*Result, error) {
	req := &quoratev1.TransferLeadershipRequest{From: r.PostForm.Get("from"), To: r.PostForm.Get("to")}
	if one := r.PostForm.Get("range"); one != "" {
		n, err := strconv.ParseUint(one, 10, 32)
		if err != nil {
			return nil, &Problem{Status: 400, Title: "That is not right", Field: "range", Detail: "is " + strconv.Quote(phrase.Clip(one, 20)) + "; must be the number of a range"}
		}
		req.Ranges = []uint32{uint32(n)}
	}
	res, err := r.Cluster.TransferLeadership(r.Context(), req)
	if err != nil {
		return nil, err
	}
	out := &Result{Title: phrase.Plural(int(res.Moved), "range") + " handed over", Lines: res.Faults}
	return out, nil
}

func confirmJoinToken(r *Request) (*Confirmation, error) {
	form := func(name, usual string) string {
		if v := r.PostForm.Get(name); v != "" {
			return v
		}
		return usual
	}
	return &Confirmation{
		Title: "Add a node", Button: "Make a join token",
		Will: []string{"A token is made with which a new node joins.", "It is shown once. Whoever has it can join until it ends."},
		Fields: []Field{
			{Name: "ttl", Label: "Good for", Type: "text", Required: true, Value: form("ttl", "1h"), Hint: "At most 720h, 30 days."},
			{Name: "uses", Label: "Nodes that may join with it", Type: "number", Required: true, Value: form("uses", "1"), Hint: "1 to 256."},
		},
	}, nil
}

func doJoinToken(r *Request) (*Result, error) {
	ttl, err := durationField(r, "ttl")
	if err != nil {
		return nil, err
	}
	uses, err := strconv.ParseUint(r.PostForm.Get("uses"), 10, 16)
	if err != nil {
		return nil, &Problem{Status: 400, Title: "That is not right", Field: "uses", Detail: "Must be a whole number from 1 to 256."}
	}
	res, err := r.Cluster.CreateJoinToken(r.Context(), &quoratev1.CreateJoinTokenRequest{Ttl: ttl, Uses: uint32(uses)})
	if err != nil {
		return nil, err
	}
	return &Result{
		Title: "A join token is made", Secret: res.Token, Label: "Join token " + res.GetInfo().GetId() + ".",
		Lines: []string{"On the new machine: quorate serve --data DIR --node NAME --host HOST --join " + strings.Join(res.Addresses, ",") + " --token-file FILE"},
	}, nil
}

// durationField parses a duration of a form; nil if it is empty.
func durationField(r *Request, name string) (*durationpb.Duration, error) {
	text := strings.TrimSpace(r.PostForm.Get(name))
	if text == "" {
		return nil, nil //nolint:nilnil // none is no error
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return nil, &Problem{Status: 400, Title: "That is not right", Field: name, Detail: "Is " + strconv.Quote(phrase.Clip(text, 40)) + "; must be a duration such as 30m, 1h or 720h."}
	}
	return durationpb.New(d), nil
}
