package share_test

import "github.com/quorate/quorate/internal/quota"

// foresight is the best possible division with the information in reports: a single place
// that receives every report without delay, knows the exact level of the limit, and sets the
// parts of all proxies at once. Between two reports of a proxy it knows no more about the
// proxy's demand than the nodes do. A better result than foresight is luck; a worse one comes
// from delay or caution.
type foresight struct {
	w     *world
	level bucket // of the limit, charged with all requests that foresight admits
	twins []*twin
	admit int64
}

// twin sees the same requests as a proxy and decides them by foresight.
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

// request decides one request. It reports the first one at once, as a filter does.
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

// report measures the twin's demand since its last report, and divides.
func (f *foresight) report(t *twin) {
	gap := f.w.now.Sub(t.last).Seconds()
	if !t.known || gap <= 0 {
		return
	}
	t.demand, t.requests, t.last = float64(t.requests)/gap, 0, f.w.now
	f.divide()
}

// divide gives every twin its max-min fair part of the rate by demand plus an equal share of
// the rest. It fills the twin's bucket with the same part of the level, except that twins short
// of tokens share nine tenths of the level if there are any.
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
		if short > 0 { // a served twin needs only enough for random variation
			part = 0.1 * r / rate
			if t.demand > parts[i] {
				part += 0.9 * parts[i] / short
			}
		}
		t.bucket = bucket{max: f.level.max, rate: r, level: max(f.level.level, 0) * part, at: now}
	}
}
