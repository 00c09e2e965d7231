package share_test

import "github.com/quorate/quorate/internal/quota"

// foresight is the best that can be done with what reports tell, and when: one place
// that hears every report in the moment it is made, knows exactly what there is of the
// limit, and tells all proxies at once what their parts are. Between two reports of a
// proxy it knows no more of its demand than anybody. Who is better than this has been
// lucky; who is worse has lost it on the way or by caution.
type foresight struct {
	w     *world
	level bucket // of the limit, charged with all that it admits
	twins []*twin
	admit int64
}

// twin is a proxy that sees the same requests, and decides by foresight.
type twin struct {
	of       *proxy
	bucket   bucket
	demand   float64
	requests int64
	last     quota.Time
	known    bool
}

func (f *foresight) add(p *proxy) *twin {
	t := &twin{of: p, last: f.w.now, bucket: newBucket(f.w.now, 0, 0)}
	f.twins = append(f.twins, t)
	return t
}

// request decides one. The first is reported at once, as a filter does.
func (f *foresight) request(t *twin) {
	now := f.w.now
	t.requests++
	if !t.known {
		t.known = true
		t.demand = float64(f.w.rate()) / float64(len(f.twins))
		f.divide()
	}
	if !t.bucket.take(now) {
		return
	}
	f.admit++
	f.level.spend(now, 1)
}

// report is told the demand since the last one, and divides.
func (f *foresight) report(t *twin) {
	gap := f.w.now.Sub(t.last).Seconds()
	if !t.known || gap <= 0 {
		return
	}
	t.demand, t.requests, t.last = float64(t.requests)/gap, 0, f.w.now
	f.divide()
}

// divide gives everybody the max-min fair part of the rate by demand, what is left over
// equally, and of what there is the same part.
func (f *foresight) divide() {
	now, rate := f.w.now, f.w.rate()
	demand := make([]float64, len(f.twins))
	for i, t := range f.twins {
		demand[i] = t.demand
	}
	parts := maxMin(rate, demand)
	left := rate
	for _, p := range parts {
		left -= p
	}
	f.level.spend(now, 0)
	short := 0.0
	for i, t := range f.twins {
		if t.demand > parts[i] {
			short += parts[i]
		}
	}
	for i, t := range f.twins {
		r := parts[i] + max(left, 0)/float64(len(f.twins))
		part := r / rate
		if short > 0 { // who has enough needs no more than chance does
			part = 0.1 * r / rate
			if t.demand > parts[i] {
				part += 0.9 * parts[i] / short
			}
		}
		t.bucket = bucket{max: f.level.max, rate: r, level: max(f.level.level, 0) * part, at: now}
	}
}
