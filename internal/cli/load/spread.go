package load

import (
	"strconv"
	"strings"

	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/phrase"
)

// spread assigns requests to nodes by weights. The sequence is fixed and always as even as the
// weights allow, so two runs send the same requests to the same nodes. It is not safe for
// concurrent use.
type spread struct {
	weights []int
	credit  []int
	total   int
}

// parseSpread reads "even" or weights such as "90/5/5", one per node.
func parseSpread(flag, s string, nodes int) (*spread, error) {
	p := &spread{weights: make([]int, nodes), credit: make([]int, nodes)}
	if s == "even" || s == "" {
		for i := range p.weights {
			p.weights[i] = 1
		}
		p.total = nodes
		return p, nil
	}
	parts := strings.Split(s, "/")
	if len(parts) != nodes {
		return nil, exit.Usagef("--%s %q: has %s for %s; write one per node, such as %s, or even", flag, s, phrase.Plural(len(parts), "weight"), phrase.Plural(nodes, "node"), exampleSpread(nodes))
	}
	for i, part := range parts {
		w, err := strconv.Atoi(part)
		if err != nil || w < 0 || w > 1_000_000 {
			return nil, exit.Usagef("--%s %q: weight %q must be a whole number from 0 to 1000000", flag, s, part)
		}
		p.weights[i] = w
		p.total += w
	}
	if p.total == 0 {
		return nil, exit.Usagef("--%s %q: all weights are 0; at least one node must get requests", flag, s)
	}
	return p, nil
}

func exampleSpread(nodes int) string {
	return strings.TrimSuffix(strconv.Itoa(100-5*min(nodes-1, 10))+"/"+strings.Repeat("5/", nodes-1), "/")
}

// next returns the node of the next request: the one with the most credit.
func (p *spread) next() int {
	best := 0
	for i, w := range p.weights {
		p.credit[i] += w
		if p.credit[i] > p.credit[best] {
			best = i
		}
	}
	p.credit[best] -= p.total
	return best
}
