package monitor

// A Label is one label of a metric.
type Label struct {
	Name string
	// Most bounds the values at one node, and Bound says why there are no more.
	Most  int
	Bound string
}

// A Family is one metric of a node.
type Family struct {
	Name   string
	Type   string  // counter, gauge or histogram
	Unit   string  // of one sample
	Labels []Label // none has a value that callers can make up without end
	Series int     // at most, at one node; 0 is the product of its labels' Most
	Do     string  // what to do about it, for docs/metrics.md
	Rare   bool    // there is none before it has happened, or only with a setting
}

// Most returns how many series a node shows at most; of a histogram, without counting
// buckets.
func (f *Family) Most() int {
	if f.Series > 0 {
		return f.Series
	}
	n := 1
	for _, l := range f.Labels {
		n *= l.Most
	}
	return n
}

// A Group is a chapter of the catalogue.
type Group struct {
	Title, About string
	Families     []Family
}

// maxLimits is the default of metrics.limits, and one for @other and some for @inline.
const maxLimits = 1001

// Labels that several metrics have.
var (
	limitLabels = []Label{
		{"namespace", maxLimits, "of those limits"},
		{"limit", maxLimits, "the first `metrics.limits` (1000) limits, @other, and @inline for those that callers bring along"},
	}
	result = Label{"result", 2, "allowed, refused"}
	why    = Label{"why", 16, "the reasons of a decision"}
)

// methods bounds the calls of the API: a label is one of its methods or routes, or other.
const methods = 256

func counter(name, unit, do string, labels ...Label) Family {
	return Family{Name: name, Type: "counter", Unit: unit, Do: do, Labels: labels}
}

func gauge(name, unit, do string, labels ...Label) Family {
	return Family{Name: name, Type: "gauge", Unit: unit, Do: do, Labels: labels}
}

func histogram(name, unit, do string, labels ...Label) Family {
	return Family{Name: name, Type: "histogram", Unit: unit, Do: do, Labels: labels}
}

// perLimit is a metric of each limit: its labels do not multiply.
func perLimit(f Family, more ...Label) Family {
	f.Labels, f.Series = append(append([]Label(nil), limitLabels...), more...), maxLimits
	for _, l := range more {
		f.Series *= l.Most
	}
	return f
}

func rare(f Family) Family {
	f.Rare = true
	return f
}

// All returns the metrics of all groups.
func All() (out []Family) {
	for _, g := range Catalogue() {
		out = append(out, g.Families...)
	}
	return out
}
