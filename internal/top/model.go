package top

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// Ask puts one question to the cluster: the status of it, and the rates that match.
type Ask func(ctx context.Context, req *quoratev1.TopRatesRequest) (*quoratev1.GetStatusResponse, *quoratev1.TopRatesResponse, error)

// Options of the screen.
type Options struct {
	Every time.Duration // between two questions
	Plain bool          // no colours
	// Order is by what keys are ranked at first.
	Order quoratev1.RateOrder
}

// keysAsked is how many keys are asked for: more than a screen has.
const keysAsked = 500

// Model is the screen. It implements tea.Model.
type Model struct {
	ask Ask
	opt Options

	width, height int
	limit         string // namespace/limit whose keys are shown; empty is all limits
	prefix        string // of keys, or of limits
	typing        bool   // the prefix is being typed
	help, paused  bool
	order         quoratev1.RateOrder
	column        int // by which limits are sorted
	cursor, from  int // of rows

	turn   int // tells answers of earlier questions from those of this one
	status *quoratev1.GetStatusResponse
	rates  *quoratev1.TopRatesResponse
	before *quoratev1.TopRatesResponse // for what limits gained since
	err    error
	closed bool
	still  bool // printed once: no marks, no help
}

// New returns the screen, which asks as soon as it runs.
func New(ask Ask, opt Options) *Model {
	if opt.Every <= 0 {
		opt.Every = time.Second
	}
	if opt.Order == 0 {
		opt.Order = quoratev1.RateOrder_RATE_ORDER_DEMAND
	}
	return &Model{ask: ask, opt: opt, order: opt.Order, column: 1, width: 80, height: 24}
}

type (
	answer struct {
		turn   int
		status *quoratev1.GetStatusResponse
		rates  *quoratev1.TopRatesResponse
		err    error
	}
	tick int // of a turn
)

// Init implements tea.Model.
func (m *Model) Init() tea.Cmd { return m.question() }

// question asks for what the screen shows now.
func (m *Model) question() tea.Cmd {
	m.turn++
	turn, req := m.turn, m.request()
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), max(m.opt.Every, 5*time.Second))
		defer cancel()
		status, rates, err := m.ask(ctx, req)
		return answer{turn, status, rates, err}
	}
}

func (m *Model) request() *quoratev1.TopRatesRequest {
	req := &quoratev1.TopRatesRequest{Top: 1}
	if m.limit == "" {
		return req
	}
	req.Top, req.Order, req.KeyPrefix = keysAsked, m.order, m.prefix
	req.Namespace, req.Limit = cut(m.limit)
	return req
}

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.clamp()
	case tea.KeyPressMsg:
		cmd := m.press(msg)
		return m, cmd
	case answer:
		cmd := m.answered(msg)
		return m, cmd
	case tick:
		if int(msg) == m.turn && !m.paused {
			cmd := m.question()
			return m, cmd
		}
	}
	return m, nil
}

// answered takes an answer, unless it is of an earlier question.
func (m *Model) answered(a answer) tea.Cmd {
	if a.turn != m.turn {
		return nil
	}
	if m.err = a.err; a.err == nil {
		m.before, m.status, m.rates = m.since(a.rates), a.status, a.rates
		m.clamp()
	}
	return m.again()
}

// since returns the last answer that covers no fewer ranges than a new one, or nil: what a node has counted that did not
// answer before is what was asked for in all its life.
func (m *Model) since(next *quoratev1.TopRatesResponse) *quoratev1.TopRatesResponse {
	for _, had := range []*quoratev1.TopRatesResponse{m.rates, m.before} {
		if had != nil && had.RangesCovered >= next.GetRangesCovered() {
			return had
		}
	}
	return nil
}

func (m *Model) again() tea.Cmd {
	turn := m.turn
	return tea.Tick(m.opt.Every, func(time.Time) tea.Msg { return tick(turn) })
}

// Err returns why the last question had no answer, or nil.
func (m *Model) Err() error { return m.err }

// Once asks twice, that far apart, and returns the screen without colours: for a
// terminal that nobody looks at.
func (m *Model) Once(width, height int) (string, error) {
	m.width, m.height, m.still = width, height, true
	for range 2 {
		if m.status != nil {
			time.Sleep(m.opt.Every)
		}
		a, _ := m.question()().(answer)
		if a.err != nil {
			return "", a.err
		}
		m.answered(a)
	}
	return m.text(), nil
}
