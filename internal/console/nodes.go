package console

import (
	"cmp"
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
	Under   int  // ranges with a voter that is not connected
	down    map[string]bool
	underOn map[string]int // of them, by voter
}

// UnderOn returns how many ranges of a node have a voter that is not connected.
func (v *nodesView) UnderOn(id string) int { return v.underOn[id] }

// Up reports whether a node is connected.
func (v *nodesView) Up(id string) bool { return !v.down[id] }

func loadNodes(r *Request) (any, error) {
	st, err := r.Cluster.GetStatus(r.Context(), &quoratev1.GetStatusRequest{})
	if err != nil {
		return nil, err
	}
	v := &nodesView{Status: st, May: r.May(rbac.ClusterAdmin), down: map[string]bool{}, underOn: map[string]int{}}
	for _, n := range st.Nodes {
		v.down[n.Id] = !n.Connected
	}
	for _, g := range st.Ranges {
		if slices.ContainsFunc(g.Replicas, func(id string) bool { return v.down[id] }) {
			v.Under++
			for _, id := range g.Replicas {
				v.underOn[id]++
			}
		}
	}
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
	will                func(n *quoratev1.NodeStatus) []string
	danger              bool
}{
	quoratev1.NodeChange_NODE_CHANGE_DRAIN: {
		title: "Drain %s?", button: "Drain %s", done: "%s is draining",
		will: func(n *quoratev1.NodeStatus) []string {
			return []string{"It hands over its leadership of " + count(n.Leads, "range") + ", and leads no others.", "It gets no new replicas and keeps its " + num(n.Replicas) + ", so no data is copied.", "It continues to decide for its clients.", "Activate ends the drain."}
		},
	},
	quoratev1.NodeChange_NODE_CHANGE_ACTIVATE: {
		title: "Activate %s?", button: "Activate %s", done: "%s is active",
		will: func(n *quoratev1.NodeStatus) []string {
			return []string{fmt.Sprintf("It can lead ranges (%d now) and get replicas (%d now) again.", n.Leads, n.Replicas), "A leave in progress is cancelled, and replicas that moved away return."}
		},
	},
	quoratev1.NodeChange_NODE_CHANGE_LEAVE: {
		title: "Let %s leave the cluster?", button: "Let %s leave", done: "%s is leaving", danger: true,
		will: func(n *quoratev1.NodeStatus) []string {
			return []string{"It hands over its leadership of " + count(n.Leads, "range") + ".", "The node gives up " + count(n.Replicas, "replica") + " to other nodes, one step at a time; then its process exits.", "Until then, Activate cancels the leave."}
		},
	},
	quoratev1.NodeChange_NODE_CHANGE_REMOVE: {
		title: "Remove %s permanently?", button: "Remove %s", done: "%s is removed", danger: true,
		will: func(n *quoratev1.NodeStatus) []string {
			return []string{"For a dead node: it is removed at once (it led " + count(n.Leads, "range") + ").", "Other nodes create " + count(n.Replicas, "replica") + " again.", "It cannot rejoin with its data."}
		},
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
			return nil, &Problem{Status: 404, Title: "Unknown node", Detail: "The cluster has no node " + strconv.Quote(phrase.Clip(id, 128)) + "."}
		}
		n := st.Nodes[i]
		c := &Confirmation{Title: fmt.Sprintf(words.title, id), Button: fmt.Sprintf(words.button, id), Danger: words.danger, Fields: Hidden(r, "node")}
		c.Will = append(words.will(n), moves(r, change, id)...)
		if change == quoratev1.NodeChange_NODE_CHANGE_LEAVE {
			c.Fields = append(c.Fields, Field{Name: "force", Label: "Leave even if ranges then have too few voters", Type: "checkbox", Value: r.PostForm.Get("force"), Hint: "Otherwise the leave is refused if a range would have fewer voters than the setting replicas."})
		}
		return c, nil
	}
	do := func(r *Request) (*Result, error) {
		id := r.PostForm.Get("node")
		res, err := r.Cluster.ChangeNode(r.Context(), &quoratev1.ChangeNodeRequest{Node: id, Change: change, Force: change == quoratev1.NodeChange_NODE_CHANGE_LEAVE && r.PostForm.Get("force") != ""})
		if err != nil {
			return nil, err
		}
		lines := []string{"The change is committed. The cluster carries it out; the page shows the progress."}
		goes := change == quoratev1.NodeChange_NODE_CHANGE_LEAVE || change == quoratev1.NodeChange_NODE_CHANGE_REMOVE
		if res.Moves > 0 && goes { // for other changes only the preferred leader changes, and no replica moves
			lines = append(lines, count(res.Moves, "replica")+" will move.")
		}
		if res.Warning != "" {
			lines = append(lines, "Warning: "+res.Warning+".")
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
		return []string{"The plan is not available now: " + problemOf(err).Detail}
	}
	return []string{num(len(plan.Groups)) + " of " + count(plan.Total, "group") + " will change."}
}

// confirmTransfer asks which ranges to hand over, and to which node. With from it is all that this node
// leads, unless ranges are named.
func confirmTransfer(r *Request) (*Confirmation, error) {
	from := r.PostForm.Get("from")
	st, err := r.Cluster.GetStatus(r.Context(), &quoratev1.GetStatusRequest{})
	if err != nil {
		return nil, err
	}
	to := Field{Name: "to", Label: "To", Type: "select", Value: r.PostForm.Get("to"), Hint: "Any: the most suitable of the other voters of each range.", Options: []Option{{"", "any"}}}
	for _, n := range st.Nodes {
		if n.Id != from && n.Connected {
			to.Options = append(to.Options, Option{n.Id, n.Id})
		}
	}
	ranges := Field{Name: "ranges", Label: "Ranges", Type: "text", Value: cmp.Or(r.PostForm.Get("ranges"), strings.Join(r.PostForm["range"], ", ")), Required: from == "", Hint: "Numbers, such as 0, 4-7."}
	c := &Confirmation{Title: "Hand over ranges?", Button: "Hand over", Fields: append(Hidden(r, "from"), ranges, to)}
	if from != "" {
		c.Title = "Hand over the ranges of " + from + "?"
		c.Fields[len(c.Fields)-2].Hint += " Empty: all that " + from + " leads."
	}
	c.Will = []string{
		"Each range moves to another of its voters, one after the other, in a few milliseconds.",
		"Decisions continue: nodes spend the tokens that they hold.",
		"Balancing may move leaderships back later. To keep a node from leading, drain it.",
	}
	return c, nil
}

func doTransfer(r *Request) (*Result, error) {
	ranges, err := rangeNumbers(r.PostForm.Get("ranges"))
	if err != nil {
		return nil, err
	}
	req := &quoratev1.TransferLeadershipRequest{From: r.PostForm.Get("from"), To: r.PostForm.Get("to"), Ranges: ranges}
	if req.From == "" && len(ranges) == 0 {
		return nil, wrongField("ranges", "", "the numbers of ranges, such as 0, 4-7")
	}
	res, err := r.Cluster.TransferLeadership(r.Context(), req)
	if err != nil {
		return nil, err
	}
	return &Result{Title: phrase.Plural(int(res.Moved), "range") + " handed over", Lines: res.Faults}, nil
}

// maxRange bounds the numbers of ranges in a form.
const maxRange = 1 << 16

// rangeNumbers parses numbers and spans of numbers, such as 0, 4-7.
func rangeNumbers(text string) (out []uint32, err error) {
	for word := range strings.FieldsFuncSeq(text, func(c rune) bool { return c == ',' || c == ' ' }) {
		low, high, span := strings.Cut(word, "-")
		first, err1 := strconv.ParseUint(low, 10, 32)
		last := first
		var err2 error
		if span {
			last, err2 = strconv.ParseUint(high, 10, 32)
		}
		if err1 != nil || err2 != nil || last < first || last >= maxRange {
			return nil, wrongField("ranges", text, "numbers of ranges, such as 0, 4-7")
		}
		for n := first; n <= last && len(out) < maxRange; n++ {
			out = append(out, uint32(n))
		}
	}
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
		Title: "Add a node", Button: "Create a join token",
		Will: []string{"Creates a token with which a new node joins.", "The token is shown once. Anyone who has it can join until it expires."},
		Fields: []Field{
			{Name: "ttl", Label: "Valid for", Type: "text", Required: true, Value: form("ttl", "1h"), Hint: "At most 720h, 30 days."},
			{Name: "uses", Label: "Uses: number of nodes that can join", Type: "number", Required: true, Value: form("uses", "1"), Hint: "1 to 256."},
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
		return nil, &Problem{Status: 400, Title: "Invalid value", Field: "uses", Detail: "Must be a whole number from 1 to 256."}
	}
	res, err := r.Cluster.CreateJoinToken(r.Context(), &quoratev1.CreateJoinTokenRequest{Ttl: ttl, Uses: uint32(uses)})
	if err != nil {
		return nil, err
	}
	return &Result{
		Title: "Join token created", Secret: res.Token, Label: "Join token " + res.GetInfo().GetId() + ".",
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
		return nil, &Problem{Status: 400, Title: "Invalid value", Field: name, Detail: strconv.Quote(phrase.Clip(text, 40)) + " must be a duration such as 30m, 1h or 720h."}
	}
	return durationpb.New(d), nil
}
