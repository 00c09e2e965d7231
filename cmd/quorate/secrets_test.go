package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/audit"
	"github.com/quorate/quorate/internal/buftest"
	"github.com/quorate/quorate/internal/cli"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/server"
	"github.com/quorate/quorate/internal/freeport"
	"github.com/quorate/quorate/internal/pki"
)

// freePorts returns addresses on which nothing listens.
func freePorts(t *testing.T, n int) (out []string) {
	t.Helper()
	for range n {
		addr, err := freeport.Addr()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, addr)
	}
	return out
}

// secured is a node made by "quorate init" that the test runs.
type secured struct {
	t                 *testing.T
	dir               string
	http, grpc, debug string
	log               buftest.Buffer // everything that the node prints
	said              buftest.Buffer // everything that commands print, except what shows a secret on purpose
}

func newSecured(t *testing.T) *secured {
	t.Helper()
	p := freePorts(t, 4)
	s := &secured{t: t, dir: filepath.Join(t.TempDir(), "data"), http: p[0], grpc: p[1], debug: p[3]}
	if code := cli.Run(t.Context(), []string{"init", "--data", s.dir, "--http", p[0], "--grpc", p[1], "--peer", p[2], "--ranges", "1", "--replicas", "1"}, &s.said, &s.said); code != exit.OK {
		t.Fatal(s.said.String())
	}
	t.Setenv("QUORATE_LISTEN_DEBUG", s.debug)
	t.Setenv("QUORATE_LOG_LEVEL", "debug")
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan int)
	go func() { done <- cli.Run(ctx, []string{"serve", "--data", s.dir}, &s.log, &s.log) }()
	t.Cleanup(func() {
		stop()
		<-done
	})
	t.Setenv("QUORATE_TLS_DIR", filepath.Join(s.dir, "admin"))
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if s.run("status", "-o", "json") == exit.OK && strings.Contains(s.said.String(), `"ready":true`) {
			return s
		}
		if time.Now().After(end) {
			t.Fatalf("not ready:\n%s\n%s", s.said.String(), s.log.String())
		}
	}
}

// run runs a command against the node.
func (s *secured) run(args ...string) int {
	return cli.Run(s.t.Context(), append(args, "--addr", s.grpc), &s.said, &s.said)
}

// get asks over HTTPS, with or without the administrator's certificate.
func (s *secured) get(addr, path, token string, admin bool) string {
	s.t.Helper()
	files := pki.Files{CA: filepath.Join(s.dir, "admin", "ca.crt")}
	if admin {
		files.Cert, files.Key = filepath.Join(s.dir, "admin", "client.crt"), filepath.Join(s.dir, "admin", "client.key")
	}
	store, err := pki.OpenFiles(files, pki.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: store.ClientConfig(pki.Want{Host: "127.0.0.1"})}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "https://"+addr+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprint(res.StatusCode, " ", string(body))
}

// TestNoSecretIsShown guards against leaked secrets. It runs a node with TLS, creates and misuses
// credentials, and then searches for every secret in the output of the node and the commands: log
// at level debug, audit log, metrics, profiles, errors.
func TestNoSecretIsShown(t *testing.T) {
	s := newSecured(t)
	var shown bytes.Buffer // on purpose, once
	create := func() int {
		return cli.Run(t.Context(), []string{"tokens", "create", "ci", "--addr", s.grpc}, &shown, &s.said)
	}
	for end := time.Now().Add(time.Minute); create() != exit.OK; { // on a busy machine, connecting may take too long
		if time.Now().After(end) {
			t.Fatal(s.said.String())
		}
	}
	token := strings.TrimSpace(shown.String())
	part := strings.Split(token, ".")
	secrets := map[string]string{"the bearer token": part[2]}
	for _, file := range []string{"pki/ca.key", "pki/node.key", "admin/client.key"} {
		key, err := os.ReadFile(filepath.Join(s.dir, file))
		if err != nil {
			t.Fatal(err)
		}
		secrets[file] = strings.Split(string(key), "\n")[1]
	}
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	wrong := strings.Join([]string{part[0], part[1], strings.Repeat("Q", 42) + "A"}, ".")
	secrets["a wrong bearer token"] = strings.Repeat("Q", 42)
	secrets["a JWT"] = "bm90LWEtcmVhbC1zaWduYXR1cmU"
	jwt := "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm4ifQ." + secrets["a JWT"]
	for _, text := range []string{token, wrong, token[:len(token)-3], jwt, "Bearer " + token} {
		s.run("whoami", "--token-file", file("token", text))
		s.run("limits", "get", "--token-file", file("token", text))
		fmt.Fprintln(&s.said, s.get(s.http, "/v1/limits", text, false))
	}
	s.run("tokens", "revoke", token)
	s.run("tokens", "list", "-o", "json")
	s.run("roles", "bind", "token:ci", "planner")
	s.run("roles", "list")
	s.run("status", "-o", "json")
	outputs := map[string]string{"what commands printed": s.said.String()}
	for _, path := range []string{"/metrics", "/v1/bindings", "/v1/tokens", "/v1/status"} {
		outputs[path] = s.get(s.http, path, "", true)
	}
	for _, path := range []string{"/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1", "/debug/pprof/cmdline"} {
		outputs[path] = s.get(s.debug, path, "", true)
	}
	if !strings.HasPrefix(outputs["/metrics"], "200") || !strings.Contains(outputs["/debug/pprof/goroutine?debug=2"], "goroutine ") {
		t.Errorf("nothing was looked at: %.200s %.200s", outputs["/metrics"], outputs["/debug/pprof/goroutine?debug=2"])
	}
	if got := s.get(s.http, "/debug/pprof/", "", true); !strings.HasPrefix(got, "404") {
		t.Errorf("the API port serves profiles: %.100s", got)
	}
	auditLog, err := os.ReadFile(filepath.Join(s.dir, server.AuditFile))
	if err != nil || !strings.Contains(string(auditLog), "CreateToken") {
		t.Errorf("the audit log: %v", err)
	}
	attempts, err := os.ReadFile(audit.AttemptsPath(filepath.Join(s.dir, server.AuditFile)))
	if err != nil {
		t.Error(err)
	}
	outputs["the audit log of attempts"] = string(attempts)
	outputs["the audit log"], outputs["the log"] = string(auditLog), s.log.String()
	for where, text := range outputs {
		for what, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in %s", what, where)
			}
		}
	}
}
