package systemtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// fields are the fields of a request or of one of its items.
type fields map[string]any

// in returns the fields that name a key, plus more of them.
func in(k quota.Key, more ...any) fields {
	f := fields{"namespace": k.Namespace, "limit": k.Limit, "key": k.Key}
	for i := 0; i < len(more); i += 2 {
		f[more[i].(string)] = more[i+1]
	}
	return f
}

// answer holds the response fields that the tests read, for every HTTP call.
type answer struct {
	Allowed    bool     `json:"allowed"`
	Why        string   `json:"why"`
	Remaining  int64    `json:"remaining"`
	RetryAfter *float64 `json:"retry_after"`
	Wait       float64  `json:"wait"` // seconds; 0 stands for null too
	Shadow     bool     `json:"shadow"`
	Near       bool     `json:"near"`
	Tier       int      `json:"tier"`
	Limit      struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		Burst     int64  `json:"burst"`
	} `json:"limit"`

	Handle    string   `json:"handle"`
	ExpiresIn float64  `json:"expires_in"`
	Booked    int64    `json:"booked"`
	Result    *answer  `json:"result"`   // of acquire
	Response  *answer  `json:"response"` // of an item of allow:batch
	Results   []answer `json:"results"`
	Counters  []struct {
		Limit     string `json:"limit"`
		Admitted  int64  `json:"admitted"`
		Remaining int64  `json:"remaining"`
	} `json:"counters"`

	code int
	body string
}

// keenClient keeps more idle connections than the default client, because hammers need them.
var keenClient = &http.Client{
	Timeout:   5 * time.Second,
	Transport: &http.Transport{MaxIdleConnsPerHost: 64},
}

// try makes a call. It returns an error only if the connection fails.
func try(s *server, method, path string, body any) (a answer, err error) {
	var b []byte
	if body != nil {
		if b, err = json.Marshal(body); err != nil {
			return a, err
		}
	}
	req, err := http.NewRequest(method, "http://"+s.httpAddr+path, bytes.NewReader(b))
	if err != nil {
		return a, err
	}
	res, err := keenClient.Do(req)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return a, err
	}
	if res.StatusCode < 500 && res.StatusCode != http.StatusBadRequest && res.StatusCode != http.StatusNotFound {
		if err := json.Unmarshal(text, &a); err != nil {
			return a, fmt.Errorf("%s %s: %w: %s", method, path, err, text)
		}
	}
	a.code, a.body = res.StatusCode, string(text)
	return a, nil
}

// post makes a call that must return 200 or, if refused, 429.
func post(t *testing.T, s *server, path string, body any) answer {
	t.Helper()
	a, err := try(s, http.MethodPost, path, body)
	if err != nil {
		t.Fatalf("%s: %v", s.id, err)
	}
	if a.code != http.StatusOK && a.code != http.StatusTooManyRequests {
		t.Fatalf("%s: POST %s %v: %d: %s", s.id, path, body, a.code, a.body)
	}
	return a
}

// counted returns what the leaders have booked on each counter of a key.
func counted(s *server, k quota.Key) (map[string]int64, error) {
	a, err := try(s, http.MethodGet, fmt.Sprintf("/v1/keys?namespace=%s&limit=%s&key=%s", k.Namespace, k.Limit, k.Key), nil)
	if err == nil && a.code != http.StatusOK {
		err = fmt.Errorf("%d: %s", a.code, a.body)
	}
	out := map[string]int64{}
	for _, c := range a.Counters {
		out[c.Limit] = c.Admitted
	}
	return out, err
}

// awaitCounted waits until the leaders have booked want on a counter.
func awaitCounted(t *testing.T, s *server, k quota.Key, counter string, want int64) {
	t.Helper()
	eventually(t, 3*time.Second, fmt.Sprintf("%d are booked on %s of %v", want, counter, k), func() error {
		got, err := counted(s, k)
		if err == nil && got[counter] != want {
			err = fmt.Errorf("booked: %v", got)
		}
		return err
	})
}

// drain takes single tokens from the nodes in turn until every node has refused, and returns how
// many were admitted. Another node may hold the last tokens of a hard limit for a moment, so a node
// counts as refusing only if it refuses again after a pause.
func drain(t *testing.T, nodes []*server, k quota.Key) (admitted int) {
	t.Helper()
	refused := 0
	for i := 0; refused < 3*len(nodes); i++ {
		if post(t, nodes[i%len(nodes)], "/v1/allow", in(k)).Allowed {
			admitted, refused = admitted+1, 0
			continue
		}
		refused++
		if refused%len(nodes) == 0 {
			time.Sleep(120 * time.Millisecond) // time for a report and the answer to it
		}
	}
	return admitted
}

// stamped is an answer with the times of its request and its arrival.
type stamped struct {
	answer
	node        string
	sent, since time.Time
}

// hammer repeats one call at every node for d, with the given number of callers per node and a
// pause between calls. Callers continue after an error. hammer returns the answers in order of
// arrival.
func hammer(nodes []*server, callers int, pause, d time.Duration, path string, body any) []stamped {
	var mu sync.Mutex
	var out []stamped
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for _, s := range nodes {
		for range callers {
			wg.Go(func() {
				for time.Now().Before(end) {
					sent := time.Now()
					if a, err := try(s, http.MethodPost, path, body); err == nil {
						mu.Lock()
						out = append(out, stamped{a, s.id, sent, time.Now()})
						mu.Unlock()
					}
					time.Sleep(pause) // the callers' rate
				}
			})
		}
	}
	wg.Wait()
	slices.SortFunc(out, func(a, b stamped) int { return a.since.Compare(b.since) })
	return out
}

func key(namespace, limit, k string) quota.Key {
	return quota.Key{LimitName: quota.LimitName{Namespace: namespace, Limit: limit}, Key: k}
}
