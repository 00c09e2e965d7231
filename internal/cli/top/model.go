package top

import (
	"context"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// askFunc asks the cluster for its status and the matching rates.
type askFunc func(ctx context.Context, req *quoratev1.TopRatesRequest) (*quoratev1.GetStatusResponse, *quoratev1.TopRatesResponse, error)

// options of the screen.
type options struct {
	Every time.Duration // the interval between polls
	Plain bool          // no colours
	// Order is the initial order of keys.
	Order quoratev1.RateOrder
}

// keysAsked is the number of keys requested: more than fit on a screen.
const keysAsked = 500

// model is the screen. It implements tea.Model.
type model struct {
	ask askFunc
	opt options

	width, height int
	limit         string // namespace/limit whose keys are shown; empty shows all limits
	prefix        string // of keys, or of limits
	typing        bool   // the user is typing the prefix
	help, paused  bool
	order         quoratev1.RateOrder
	column        int // sorts the limits
	cursor, from  int // in rows

	poll   int // number of the latest poll; answers to others are dropped
	status *quoratev1.GetStatusResponse
	rates  *quoratev1.TopRatesResponse
	before *quoratev1.TopRatesResponse // for the increase of each limit since
	err    error
	closed bool
	still  bool // printed once: no marks, no help
}

// newModel returns the screen, which sends its first request when it runs.
func newModel(ask askFunc, opt options) *model {
	if opt.Every <= 0 {
		opt.Every = time.Second
	}
	if opt.Order == 0 {
		opt.Order = quoratev1.RateOrder_RATE_ORDER_DEMAND
	}
	return &model{ask: ask, opt: opt, order: opt.Order, column: 1, width: 80, height: 24}
}

type (
	answer struct {
		poll   int
		status *quoratev1.GetStatusResponse
		rates  *quoratev1.TopRatesResponse
		err    error
	}
	tick int // fires after the poll of that number
)

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return m.fetch() }

// fetch requests the data for the current screen.
func (m *model) fetch() tea.Cmd {
	m.poll++
	poll, req := m.poll, &quoratev1.TopRatesRequest{Top: 1}
	if m.limit != "" {
		req.Top, req.Order, req.KeyPrefix = keysAsked, m.order, m.prefix
		req.Namespace, req.Limit, _ = strings.Cut(m.limit, "/")
	}
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), max(m.opt.Every, 5*time.Second))
		defer cancel()
		status, rates, err := m.ask(ctx, req)
		return answer{poll, status, rates, err}
	}
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
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
		if int(msg) == m.poll && !m.paused {
			cmd := m.fetch()
			return m, cmd
		}
	}
	return m, nil
}

// answered shows an answer, unless it belongs to an earlier poll.
func (m *model) answered(a answer) tea.Cmd {
	if a.poll != m.poll {
		return nil
	}
	if m.err = a.err; a.err == nil {
		m.before, m.status, m.rates = m.since(a.rates), a.status, a.rates
		m.clamp()
	}
	poll := m.poll
	return tea.Tick(m.opt.Every, func(time.Time) tea.Msg { return tick(poll) })
}

// since returns the latest answer that covers at least as many ranges as the new one, or nil.
// Otherwise the rates would include everything that a node which did not answer before has counted
// since it started.
func (m *model) since(next *quoratev1.TopRatesResponse) *quoratev1.TopRatesResponse {
	for _, had := range []*quoratev1.TopRatesResponse{m.rates, m.before} {
		if had != nil && had.RangesCovered >= next.GetRangesCovered() {
			return had
		}
	}
	return nil
}

// Once asks twice, one interval apart, and returns the screen as text without colours.
func (m *model) Once(width, height int) (string, error) {
	m.width, m.height, m.still = width, height, true
	for range 2 {
		if m.status != nil {
			time.Sleep(m.opt.Every)
		}
		a, _ := m.fetch()().(answer)
		if a.err != nil {
			return "", a.err
		}
		m.answered(a)
	}
	return m.text(), nil
}
