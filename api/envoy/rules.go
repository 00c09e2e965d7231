package envoy

import (
	"fmt"

	"github.com/quorate/quorate/internal/descriptor"
)

// Rules maps namespaces to domains. It is immutable.
type Rules struct{ domains map[string]*descriptor.Domain }

// NewRules returns the rules of domains. If two domains map to one namespace, the error names them
// and their files.
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

// tree returns the rules of a domain, or false if it has none.
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
