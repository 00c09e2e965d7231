package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"os"
	"time"

	"github.com/quorate/quorate/bench/suite"
)

var _ suite.Profiler = (*runner)(nil)

// profileTime is the length of a profile.
const profileTime = 8 * time.Second

// Profile implements suite.Profiler. It profiles the first of several nodes.
func (r *runner) Profile(ctx context.Context, prefix string) error {
	if len(r.debug) == 0 {
		return nil
	}
	at := "http://" + r.debug[0] + "/debug/pprof/"
	ended := make(chan error, 1)
	go func() {
		_, _, err := r.load(ctx, profileTime+time.Second)
		ended <- err
	}()
	err := download(ctx, fmt.Sprintf("%sprofile?seconds=%.0f", at, profileTime.Seconds()), prefix+".cpu")
	return errors.Join(err, <-ended, download(ctx, at+"allocs", prefix+".allocs"))
}

func download(ctx context.Context, url, file string) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, res.Body)
	return errors.Join(err, out.Close())
}

// profiles returns a handler that serves profiles as a node does.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	return mux
}
