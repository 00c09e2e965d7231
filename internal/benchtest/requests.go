package benchtest

import (
	"math/rand/v2"
	"strings"
)

// Requests are keys, one behind the other in memory, as in a server: a caller has just read its key
// from a connection, so its bytes are in the cache.
type Requests struct {
	keys   string
	length int
}

const requestCount = 1 << 20

// NewRequests draws requests for keys of one length, uniformly or by Zipf's law with
// the exponent 1.1, always the same ones.
func NewRequests(keys []string, zipf bool) Requests {
	rng := rand.New(rand.NewPCG(1, 2))
	z := rand.NewZipf(rng, 1.1, 1, uint64(len(keys)-1))
	var out strings.Builder
	for range requestCount {
		n := rng.IntN(len(keys))
		if zipf {
			n = int(z.Uint64())
		}
		out.WriteString(keys[n])
	}
	return Requests{out.String(), len(keys[0])}
}

// Key returns the key of request i; after a million requests, the keys repeat.
func (r *Requests) Key(i int) string {
	at := i % requestCount * r.length
	return r.keys[at : at+r.length]
}
