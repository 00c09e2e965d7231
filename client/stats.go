package client

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/pki"
)

// stats are the counters of a client.
type stats struct {
	granted  tally // admitted from held tokens, by a handle
	repeated tally // refused again without a lock, by a handle
	modes    [modeCount]atomic.Uint64
	refused  atomic.Uint64
	errors   atomic.Uint64
	calls    atomic.Uint64
	timeouts atomic.Uint64
	broken   atomic.Uint64

	attempts, reattached, lost        atomic.Uint64
	reports, unsent, grants, bad      atomic.Uint64
	grantWaits, dropped, waitsRefused atomic.Uint64
	asked                             atomic.Uint64
	lastErr                           atomic.Pointer[string]

	whyRefused func(text string) string // as in options
}

// recordAttachError records why an attempt to attach failed.
func (s *stats) recordAttachError(addr string, err error) {
	why := addr + ": no answer in time"
	if err != nil && !errors.Is(err, context.Canceled) {
		st := status.Convert(err)
		why = addr + ": " + s.explain(st.Message()) + permissionHint(st)
	}
	s.lastErr.Store(&why)
}

// permissionHint states how a process that a node has denied gets the permission; "" for other errors.
func permissionHint(st *status.Status) string {
	who, _, lacks := strings.Cut(st.Message(), " needs check")
	switch {
	case st.Code() == codes.Unauthenticated && lacks:
		return "; give a token with WithTokenFile, or put client.crt and client.key into the directory of WithTLSDir"
	case st.Code() == codes.PermissionDenied && lacks:
		return "; an administrator can grant it: quorate roles bind " + who + " checker --namespace NAMESPACE"
	}
	return ""
}

// explain explains an error of gRPC for people: that of a refused certificate, and those that explainTransport knows.
func (s *stats) explain(text string) string {
	if s.whyRefused != nil {
		if why := s.whyRefused(text); why != "" {
			return why
		}
	}
	return explainTransport(text)
}

// explainTransport explains gRPC's errors of common mistakes, such as a wrong port. Other texts pass
// through pki.ConnectionCause.
func explainTransport(text string) string {
	has := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case has("unexpected HTTP status code") || has("unexpected content-type") || has("looked like an HTTP/1.1 header"):
		return "is HTTP, not gRPC: use the gRPC port, 7412 by default"
	case has("frame too large"):
		return "does not speak gRPC, such as the port of the Redis protocol: use the gRPC port, 7412 by default"
	case has("ALPN"):
		return "is a port with TLS and without gRPC, such as that for peers: use the gRPC port, 7412 by default"
	case has("first record does not look like a TLS handshake"):
		return "is a port without TLS: use the gRPC port, 7412 by default, or leave out WithTLSDir if the nodes use no TLS"
	case has("connection error") && (has("EOF") || has("reset")):
		return pki.ConnectionCause(text) + "; use the gRPC port, 7412 by default, and WithTLSDir if the nodes use TLS"
	}
	return pki.ConnectionCause(text)
}

// lastError returns why the last attempt to attach failed.
func (s *stats) lastError() string {
	if why := s.lastErr.Load(); why != nil {
		return *why
	}
	return "no answer yet"
}

// The modes by number.
const (
	granted = iota
	soft
	cutOff
	remote
	fellBack
	modeCount
)

var modeWords = [modeCount]DecisionMode{ModeGranted, ModeSoft, ModeCutOff, ModeRemote, ModeFallback}

func modeNumber(m DecisionMode) int {
	switch m {
	case ModeSoft:
		return soft
	case ModeCutOff:
		return cutOff
	case ModeRemote:
		return remote
	case ModeFallback:
		return fellBack
	}
	return granted
}

// count counts a decision.
func (s *stats) count(r *Result) {
	s.modes[modeNumber(r.Mode)].Add(1)
	if !r.Allowed {
		s.refused.Add(1)
	}
}

// Stats counts what a client has done since its creation. Counts never fall.
type Stats struct {
	// Decisions by mode, refusals included.
	Decisions map[DecisionMode]uint64
	// Refused counts the refusals among them; Errors the checks without a decision.
	Refused, Errors uint64

	// Calls to nodes, those without an answer in time, and those not made because the circuit was
	// open.
	Calls, Timeouts, Broken uint64
	CircuitOpen             bool   // now
	CircuitOpened           uint64 // number of times that it opened

	// Attached reports whether there is a stream to a node, and Node is its address.
	Attached bool
	Node     string
	// LastError is why the last attempt to attach failed, with the address of the node, for people;
	// empty while attached.
	LastError string
	// Attempts to attach, broken streams, and streams that replaced another.
	Attempts, Lost, Reattached uint64
	// Reports sent, those that did not fit into the queue, and grants applied.
	Reports, Unsent, Grants uint64
	// Bad counts invalid messages of nodes.
	Bad uint64
	// GrantWaits counts decisions that waited for a grant.
	GrantWaits uint64
	// Asked counts decisions that were left to a node, because memory did not settle them: of hard limits,
	// of limits with decide: leader or max_debt, and of concurrency limits.
	Asked uint64
	// Dropped counts last reports of broken streams that reached no node: their counts are lost.
	Dropped uint64
	// Keys in the memory of the process, and calls that currently wait in Wait.
	Keys, Waiting int
	// WaitsRefused counts calls of Wait without a place to wait.
	WaitsRefused uint64
	// Limits is the version of the current limits; 0 means none yet.
	Limits uint64
	// Up is the age of the client.
	Up time.Duration
}

// Stats returns the client's statistics. It is cheap enough to be called every second.
func (c *Client) Stats() Stats {
	s := &c.stats
	out := Stats{
		Decisions: make(map[DecisionMode]uint64, modeCount), Refused: s.refused.Load() + s.repeated.sum(), Errors: s.errors.Load(),
		Calls: s.calls.Load(), Timeouts: s.timeouts.Load(), Broken: s.broken.Load(),
		Attempts: s.attempts.Load(), Lost: s.lost.Load(), Reattached: s.reattached.Load(),
		Reports: s.reports.Load(), Unsent: s.unsent.Load(), Grants: s.grants.Load(), Bad: s.bad.Load(),
		GrantWaits: s.grantWaits.Load(), Asked: s.asked.Load(), Dropped: s.dropped.Load(), Waiting: int(c.queues.waiting.Load()), WaitsRefused: s.waitsRefused.Load(),
		Up: c.clock.Since(),
	}
	if why := s.lastErr.Load(); why != nil {
		out.LastError = *why
	}
	for i, mode := range modeWords {
		out.Decisions[mode] = s.modes[i].Load()
	}
	out.Decisions[ModeGranted] += s.granted.sum() + s.repeated.sum()
	out.CircuitOpen, out.CircuitOpened = c.breaker.state()
	if m := c.member; m != nil {
		if at := m.attached.Load(); at != nil {
			out.Attached, out.Node = true, at.addr
		}
		if agg := m.agg.Load(); agg != nil {
			out.Keys = agg.Len()
		}
		if r := m.known.Load(); r != nil {
			out.Limits = r.limits.Version
		}
	}
	return out
}

// tally is a counter for the hottest paths, spread over cache lines so that goroutines seldom share
// one.
type tally [tallies]struct {
	atomic.Uint64
	_ [56]byte // a cache line each
}

const (
	tallyBits = 6
	tallies   = 1 << tallyBits
)

// add adds one. The cell is chosen by the address of the goroutine's stack, which has at least 2 KiB.
func (t *tally) add() {
	var here byte
	stack := uint64(uintptr(unsafe.Pointer(&here))) >> 11
	t[stack*0x9e3779b97f4a7c15>>(64-tallyBits)].Add(1) // Fibonacci hashing: Knuth, TAOCP 6.4
}

// sum returns the total.
func (t *tally) sum() uint64 {
	n := uint64(0)
	for i := range t {
		n += t[i].Load()
	}
	return n
}
