package console

import "sync"

// maxFlows bounds the limits whose totals are remembered for their pages: flowPoints of
// each, some 3 MiB in all.
const maxFlows = 100

// flows remember the totals of limits that somebody looks at; the one that was begun
// first goes first. The zero value is ready.
type flows struct {
	mu    sync.Mutex
	of    map[string]*flow
	order []string
}

// get returns the flow of a limit.
func (f *flows) get(namespace, limit string) *flow {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := namespace + "/" + limit
	if one := f.of[name]; one != nil {
		return one
	}
	if f.of == nil {
		f.of = map[string]*flow{}
	}
	if len(f.order) >= maxFlows {
		delete(f.of, f.order[0])
		f.order = f.order[1:]
	}
	one := &flow{}
	f.of[name] = one
	f.order = append(f.order, name)
	return one
}

// say sets the newest rates, where they are known better than by what the totals have grown.
func (f *flow) say(asked, gave float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.points); n > 0 {
		f.points[n-1].askedRate, f.points[n-1].gaveRate = asked, gave
	}
}
