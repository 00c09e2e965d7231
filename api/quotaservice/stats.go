package quotaservice

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

const (
	topBuckets = 10   // in one list
	topKeys    = 1000 // requested from the leaders
)

type namespaceStats struct {
	Namespace string        `json:"namespace"`
	Hits      []bucketScore `json:"topHits"`
	Misses    []bucketScore `json:"topMisses"`
}

type bucketScore struct {
	Bucket string `json:"bucket"`
	Value  int64  `json:"value"`
}

type bucketScores struct {
	Hits   int64 `json:"hits"`
	Misses int64 `json:"misses"`
}

// stats returns the counts of the leaders: hits are admitted tokens and misses are refused tokens,
// in the whole cluster, since a key's leader first saw the key.
func (h *handler) stats(r *http.Request, path string) (any, *fault) {
	namespace, bucket, one := strings.Cut(path, "/")
	if namespace == "" {
		return nil, faultf(http.StatusBadRequest, "no namespace; use %s/stats/{namespace}", Root)
	}
	if h.namespaceNamed(namespace) == nil {
		return nil, faultf(http.StatusNotFound, "unknown namespace %q", namespace)
	}
	if one {
		return h.bucketStats(r, namespace, bucket)
	}
	res, err := h.node.TopRates(r.Context(), &quoratev1.TopRatesRequest{Top: topKeys, Namespace: namespace})
	if err != nil {
		return nil, unavailable(err)
	}
	hits, misses := map[string]int64{}, map[string]int64{}
	for _, k := range res.GetKeys() {
		if bucket, ok := bucketOf(quota.LimitName{Namespace: k.Namespace, Limit: k.Limit}, k.Key); ok {
			hits[bucket] += k.Admitted
			misses[bucket] += k.Refused
		}
	}
	return namespaceStats{namespace, top(hits), top(misses)}, nil
}

// top returns the buckets with the largest counts, largest first, without zeros.
func top(counts map[string]int64) []bucketScore {
	list := []bucketScore{}
	for bucket, n := range counts {
		if n > 0 {
			list = append(list, bucketScore{bucket, n})
		}
	}
	slices.SortFunc(list, func(a, b bucketScore) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Bucket, b.Bucket))
	})
	return list[:min(len(list), topBuckets)]
}

// bucketStats returns the counts of one bucket. A bucket that is counted by a default has no own
// counts: they are 0.
func (h *handler) bucketStats(r *http.Request, namespace, bucket string) (any, *fault) {
	var scores bucketScores
	limits := h.node.Limits()
	if k, ok := keyOf(limits, namespace, bucket); ok && ownCount(limits, k) {
		rates, err := h.node.Key(r.Context(), k)
		if err != nil {
			return nil, unavailable(err)
		}
		if len(rates) > 0 {
			scores = bucketScores{Hits: rates[0].Admitted, Misses: rates[0].Refused}
		}
	}
	return map[string]bucketScores{bucket: scores}, nil
}

// ownCount reports whether a key is counted separately from other buckets.
func ownCount(limits *quota.Limits, k quota.Key) bool {
	l, _ := limits.Resolve(k.LimitName, k.Key)
	return l != nil && l.LimitName.Limit != quota.Default
}
