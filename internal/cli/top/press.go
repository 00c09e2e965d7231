package top

import (
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// maxPrefix bounds the typed prefix, as the API does.
const maxPrefix = 255

// press handles a key.
func (m *model) press(k tea.KeyPressMsg) tea.Cmd {
	key := k.String()
	switch {
	case key == "ctrl+c":
		m.closed = true
		return tea.Quit
	case m.typing:
		return m.type_(key, k.Key().Text)
	case m.help:
		m.help = false
		return nil
	}
	switch key {
	case "q":
		m.closed = true
		return tea.Quit
	case "?", "h":
		m.help = true
	case "up", "k":
		m.cursor--
	case "down", "j":
		m.cursor++
	case "pgup":
		m.cursor -= m.visibleRows()
	case "pgdown", "space":
		m.cursor += m.visibleRows()
	case "home", "g":
		m.cursor = 0
	case "end", "G":
		m.cursor = len(m.table().rows) - 1
	case "enter", "right", "l":
		rows := m.table().rows
		if m.limit != "" || m.cursor >= len(rows) {
			return nil
		}
		m.limit = rows[m.cursor].name
		return m.anew()
	case "esc", "left", "backspace":
		if m.limit == "" {
			return nil
		}
		m.limit = ""
		return m.anew()
	case ">", ".":
		return m.sort(1)
	case "<", ",":
		return m.sort(-1)
	case "/":
		m.typing = true
	case "p":
		if m.paused = !m.paused; !m.paused {
			return m.fetch()
		}
	}
	m.clamp()
	return nil
}

// type_ handles a key while the user types the prefix.
func (m *model) type_(key, text string) tea.Cmd {
	switch {
	case key == "enter":
		m.typing = false
		return m.fetch()
	case key == "esc":
		m.typing, m.prefix = false, ""
		return m.fetch()
	case key == "backspace":
		_, size := utf8.DecodeLastRuneInString(m.prefix)
		m.prefix = m.prefix[:len(m.prefix)-size]
	case text != "" && len(m.prefix)+len(text) <= maxPrefix:
		m.prefix += text
	}
	return nil
}

// anew resets the screen and fetches it.
func (m *model) anew() tea.Cmd {
	m.cursor, m.from, m.prefix, m.rates, m.before, m.paused = 0, 0, "", nil, nil, false
	return m.fetch()
}

// sort selects another column, by positions to the right.
func (m *model) sort(by int) tea.Cmd {
	if m.limit == "" {
		n := len(limitColumns)
		m.column = (m.column + by + n) % n
		m.clamp()
		return nil
	}
	n := len(keyColumns)
	at := (orderColumn(m.order) + by + n) % n
	for keyColumns[at].order == 0 {
		at = (at + by + n) % n
	}
	m.order = keyColumns[at].order
	return m.fetch()
}

func orderColumn(o quoratev1.RateOrder) int {
	for i, c := range keyColumns {
		if c.order == o {
			return i
		}
	}
	return 1
}

// clamp keeps the cursor on a row, and that row on the screen.
func (m *model) clamp() {
	n := len(m.table().rows)
	m.cursor = max(0, min(m.cursor, n-1))
	m.from = max(0, min(m.from, m.cursor), m.cursor-m.visibleRows()+1)
}
