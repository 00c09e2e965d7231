package envoy

import (
	"fmt"

	"github.com/quorate/quorate/internal/descriptor"
)

// Rules are domains by the namespace that they are counted in. They are never
// changed.
type Rules struct{ domains map[string]*descriptor.Domain }

// NewRules returns the rules of some domains. The error names two that would be
// counted in one namespace, and their files.
func NewRules(domains []descriptor.Domain) (*Rules, error) {
	r := &Rules{domains: make(map[string]*descriptor.Domain, len(domains))}
	for i := range domains {
		d := &domains[i]
		ns := descriptor.Namespace(d.Name)
		if twin := r.domains[ns]; twin != nil {
			return nil, fmt.Errorf("%s: domain %q is the namespace %s, as the domain %q of %s is; put their descriptors into one file, or give it another name", d.File, d.Name, ns, twin.Name, twin.File)
		}
		r.domains[ns] = d
	}
	return r, nil
}

// tree returns the rules of a domain, false if it is none of these.
func (r *Rules) tree(domain string) (*descriptor.Tree, bool) {
	if r == nil {
		return nil, false
	}
	d := r.domains[descriptor.Namespace(domain)]
	if d == nil || d.Name != domain {
		return nil, false
	}
	return d.Tree, true
}
