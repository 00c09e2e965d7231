package rest

import (
	"io"
	"net/http"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/internal/fairshare"
)

// Limits of HTTP request bodies in memory, in bytes per node.
const (
	maxAnonymousBody   = 32 << 10 // per call without a credential
	anonymousBytes     = 8 << 20  // all calls without a credential
	anonymousBytesEach = 1 << 20  // calls without a credential, per address
	callersBytes       = 256 << 20
	callerBytes        = 64 << 20 // per identity; per address if identities are unknown
	baseBytes          = 4 << 10  // minimum charge of a call with a body
)

// bodies bounds the memory of request bodies that are being received.
type bodies struct{ anonymous, callers *fairshare.Pool }

func newBodies() *bodies {
	return &bodies{anonymous: fairshare.New(anonymousBytes, anonymousBytesEach), callers: fairshare.New(callersBytes, callerBytes)}
}

// counts reports whether a body is charged to the pools. Small bodies of authenticated callers over
// HTTP/1 are not: the number of connections bounds them. A connection of HTTP/2 carries hundreds of
// requests.
func (b *bodies) counts(req *http.Request, anonymous bool) bool {
	n := req.ContentLength
	return n != 0 && (anonymous || n < 0 || n > api.MaxCheckBody || req.ProtoMajor >= 2)
}

// hold charges the body of a request to its owner until release is called.
func (b *bodies) hold(w http.ResponseWriter, req *http.Request, owner string, anonymous bool) (release func()) {
	body := &heldBody{ReadCloser: req.Body, pool: b.callers, owner: owner}
	if anonymous {
		body.pool = b.anonymous
		body.ReadCloser = http.MaxBytesReader(w, req.Body, maxAnonymousBody)
	}
	body.hold(baseBytes)
	req.Body = body
	return func() { body.pool.Release(body.owner, body.held) }
}

// heldBody charges its bytes to a pool as they are read.
type heldBody struct {
	io.ReadCloser
	pool  *fairshare.Pool
	owner string
	read  int64
	held  int64
	full  error // the pool was full; later reads return it
}

func (b *heldBody) hold(n int64) {
	if full := b.pool.TryAcquire(b.owner, n); full != fairshare.NotFull {
		b.full = api.TooManyBodies(b.owner, full)
		return
	}
	b.held += n
}

// Read implements io.Reader.
func (b *heldBody) Read(p []byte) (int, error) {
	if b.full != nil {
		return 0, b.full
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if more := b.read - b.held; more > 0 {
		b.hold(more)
	}
	if b.full != nil {
		return 0, b.full
	}
	return n, err
}
