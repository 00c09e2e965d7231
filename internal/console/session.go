package console

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/quorate/quorate/api/auth"
	"github.com/quorate/quorate/internal/audit"
)

// Bounds of sessions.
const (
	maxSessions = 1000
	maxOfOne    = 32 // sessions per identity
	sessionLife = 12 * time.Hour
	sessionIdle = 2 * time.Hour
	maxToken    = 8 << 10  // bytes of a credential
	maxSignIn   = 32 << 10 // bytes of the sign-in form
)

// session is a signed-in browser. It keeps the credential, which is checked for every request:
// revoking the token ends the session immediately.
type session struct {
	credential string
	owner      string // the identity
	began      time.Time
	used       time.Time
}

// sessions keeps sessions in memory, by the hash of the cookie's secret: at most maxSessions in
// total and maxOfOne per identity. At maxOfOne it ends the identity's least recently used session;
// at maxSessions, that of the identity with the most sessions, so that one identity cannot sign
// others out. The zero value is ready to use.
type sessions struct {
	mu   sync.Mutex
	byID map[[sha256.Size]byte]*session
}

func (s *sessions) begin(credential, owner string, now time.Time) (id string) {
	var raw [32]byte
	_, _ = rand.Read(raw[:])
	id = hex.EncodeToString(raw[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[[sha256.Size]byte]*session{}
	}
	s.makeRoom(owner, now)
	s.byID[sha256.Sum256([]byte(id))] = &session{credential, owner, now, now}
	return id
}

// makeRoom makes room for one more session of an owner. The caller holds mu.
func (s *sessions) makeRoom(owner string, now time.Time) {
	count := map[string]int{owner: 0}
	for id, one := range s.byID {
		if one.over(now) {
			delete(s.byID, id)
			continue
		}
		count[one.owner]++
	}
	from := owner
	if count[owner] < maxOfOne {
		if len(s.byID) < maxSessions {
			return
		}
		for who, n := range count {
			if n > count[from] {
				from = who
			}
		}
	}
	var oldest [sha256.Size]byte
	var at time.Time
	for id, one := range s.byID {
		if one.owner == from && (at.IsZero() || one.used.Before(at)) {
			oldest, at = id, one.used
		}
	}
	delete(s.byID, oldest)
}

func (s *session) over(now time.Time) bool {
	return now.Sub(s.began) > sessionLife || now.Sub(s.used) > sessionIdle
}

// credential returns the credential of a session, or "". touch marks the session as used; live
// updates do not, because an open page is not necessarily looked at.
func (s *sessions) credential(id string, now time.Time, touch bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sha256.Sum256([]byte(id))
	one := s.byID[key]
	if one == nil {
		return ""
	}
	if one.over(now) {
		delete(s.byID, key)
		return ""
	}
	if touch {
		one.used = now
	}
	return one.credential
}

func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, sha256.Sum256([]byte(id)))
}

// cookie returns the name of the session's cookie. Cookies belong to a host, not to a port, so
// nodes on one machine have different names.
func (c *Console) cookie(req *http.Request) string {
	if req.TLS != nil {
		return "__Host-quorate-" + c.Self
	}
	return "quorate-" + c.Self
}

func (c *Console) setCookie(w http.ResponseWriter, req *http.Request, value string, life int) {
	http.SetCookie(w, &http.Cookie{
		Name: c.cookie(req), Value: value, Path: "/", MaxAge: life, HttpOnly: true, Secure: req.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}

// enter authenticates a request. It redirects unauthenticated ones to sign in.
func (c *Console) enter(w http.ResponseWriter, req *http.Request) (*Request, bool) {
	r := &Request{Request: req, API: c.api, c: c}
	ctx := peer.NewContext(req.Context(), &peer.Peer{Addr: remote(req.RemoteAddr)})
	if c.Guard == nil {
		who := req.Header.Get("X-Forwarded-User")
		if who == "" {
			who = "user:console"
		}
		r.Request = req.WithContext(metadata.NewIncomingContext(ctx, metadata.Pairs("quorate-user", who)))
		return r, true
	}
	var header []string
	if cookie, err := req.Cookie(c.cookie(req)); err == nil {
		if credential := c.sessions.credential(cookie.Value, c.Now(), true); credential != "" {
			header, r.signed = []string{"Bearer " + credential}, true
		}
	}
	who, err := c.Guard.Identify(ctx, req.TLS, header)
	if err != nil || who.Credential == auth.None {
		c.toSignIn(w, req)
		return nil, false
	}
	r.Caller, r.Request = who, req.WithContext(auth.With(ctx, who))
	return r, true
}

// remote returns the address of the browser for the audit log.
func remote(addr string) net.Addr {
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return &net.TCPAddr{}
	}
	return a
}

// toSignIn redirects to the sign-in page, and from there back.
func (c *Console) toSignIn(w http.ResponseWriter, req *http.Request) {
	if strings.HasPrefix(req.URL.Path, Root+"/live/") { // an EventSource would take the sign-in page for a node that does not answer
		newLiveWriter(w).goodbye()
		return
	}
	to := Root + "/sign-in"
	if req.Method == http.MethodGet {
		to += "?next=" + url.QueryEscape(req.URL.RequestURI())
	}
	if req.Header.Get("HX-Request") == "true" {
		w.Header().Set("HX-Redirect", to)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	http.Redirect(w, req, to, http.StatusSeeOther)
}

// signInForm is the data of the sign-in page.
type signInForm struct{ Kind, Next, Error string }

func (c *Console) showSignIn(w http.ResponseWriter, req *http.Request) {
	if c.Guard == nil {
		http.Redirect(w, req, Root+"/", http.StatusSeeOther)
		return
	}
	c.signInPage(w, http.StatusOK, signInForm{Next: req.URL.Query().Get("next")})
}

func (c *Console) signInPage(w http.ResponseWriter, code int, f signInForm) {
	f.Kind = "sign-in"
	v := &view{Page: c.plain, Data: f, Self: c.Self, Version: c.Version, Bare: true}
	c.render(w, code, c.plain.set, "layout", v)
}

// signIn starts a session with a token of the cluster or of the OIDC issuer.
func (c *Console) signIn(w http.ResponseWriter, req *http.Request) {
	req.Body = http.MaxBytesReader(w, req.Body, maxSignIn) // the caller is not authenticated yet
	token, next := strings.TrimSpace(req.PostFormValue("token")), req.PostFormValue("next")
	if c.Guard == nil || !below(next) {
		next = Root + "/"
	}
	if c.Guard == nil {
		http.Redirect(w, req, next, http.StatusSeeOther)
		return
	}
	e := audit.Entry{Node: c.Self, Identity: auth.Anonymous, Credential: auth.None.String(), Address: host(req.RemoteAddr), Method: "console/sign-in", Result: audit.Denied, Attempt: true}
	var who *auth.Caller
	why := "The field is empty. Paste a token; quorate tokens create NAME creates one."
	switch {
	case len(token) > maxToken || strings.ContainsAny(token, " \t\r\n"):
		why = "Invalid token: it is too long, or contains spaces."
	case token != "":
		var err error
		if who, err = c.Guard.Identify(req.Context(), nil, []string{"Bearer " + token}); err != nil {
			why = err.Error()
		}
	}
	if who == nil {
		e.Detail = why
		c.Audit.Write(e)
		c.signInPage(w, http.StatusUnauthorized, signInForm{Next: next, Error: why})
		return
	}
	e.Identity, e.Credential, e.Serial, e.Result = who.Identity, who.Credential.String(), who.Serial, audit.OK
	c.Audit.Write(e)
	c.setCookie(w, req, c.sessions.begin(token, who.Identity, c.Now()), int(sessionLife.Seconds()))
	http.Redirect(w, req, next, http.StatusSeeOther)
}

func (c *Console) signOut(w http.ResponseWriter, req *http.Request) {
	if cookie, err := req.Cookie(c.cookie(req)); err == nil {
		c.sessions.end(cookie.Value)
	}
	c.setCookie(w, req, "", -1)
	http.Redirect(w, req, Root+"/sign-in", http.StatusSeeOther)
}

func host(addr string) string {
	if h, _, err := net.SplitHostPort(addr); err == nil {
		return h
	}
	return addr
}
