package resp

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quorate/quorate/internal/quota"
)

// command is a command that the server knows.
type command struct {
	name    string // in lower case
	least   int    // arguments, without the name
	most    int
	key     int    // which argument is a key; 0: none
	now     bool   // runs at once even between MULTI and EXEC
	summary string // for COMMAND DOCS
	usage   string // of its arguments, for errors; empty where Redis has the same command
	serve   func(c *conn, args [][]byte)
	// check and answer replace serve in a command that takes tokens. check reads the request, and returns false if it has
	// answered with an error; answer writes the answer to a decision.
	check  func(c *conn, args [][]byte) (quota.Request, bool)
	answer func(c *conn, q *quota.Request, d *quota.Decision)
}

// commands lists all commands, sorted by name. It is built once, because some commands list it.
var commands []*command

var byName = map[string]*command{}

func init() {
	commands = []*command{
		{name: "auth", least: 1, most: 2, summary: "authenticates the connection with a bearer token", serve: (*conn).auth},
		{name: throttleName, least: 4, most: 5, key: 1, summary: "takes tokens from a bucket that the arguments describe", usage: "key max_burst count_per_period period [quantity]", check: (*conn).throttle, answer: (*conn).throttled},
		{name: "client", least: 1, most: maxArgs, summary: "names and describes the connection", serve: (*conn).client},
		{name: "command", least: 0, most: maxArgs, summary: "lists the commands", serve: (*conn).command},
		{name: "discard", now: true, summary: "drops the commands since MULTI", serve: (*conn).discard},
		{name: "echo", least: 1, most: 1, summary: "answers with its argument", serve: func(c *conn, args [][]byte) { c.bytes(args[0]) }},
		{name: "exec", now: true, summary: "runs the commands since MULTI", serve: (*conn).exec},
		{name: "hello", least: 0, most: maxArgs, summary: "chooses the version of the protocol", serve: (*conn).hello},
		{name: "info", least: 0, most: maxArgs, summary: "returns the state of the server", serve: (*conn).info},
		{name: "multi", now: true, summary: "begins a transaction: the commands up to EXEC run one after the other", serve: (*conn).multi},
		{name: "ping", least: 0, most: 1, summary: "answers PONG", serve: (*conn).ping},
		{name: "quit", least: 0, most: maxArgs, now: true, summary: "closes the connection", serve: (*conn).quit},
		{name: allowName, least: 3, most: 4, key: 3, summary: "takes tokens of a limit for a key", usage: "namespace limit key [cost]", check: (*conn).allow, answer: (*conn).allowed},
		{name: "select", least: 1, most: 1, summary: "chooses a database; only 0 exists", serve: (*conn).selectDB},
		{name: "unwatch", summary: "ends WATCH, which has no effect", serve: (*conn).unwatch},
		{name: "watch", least: 1, most: maxArgs, now: true, summary: "has no effect: there are no values that could change", serve: (*conn).watch},
	}
	slices.SortFunc(commands, func(a, b *command) int { return strings.Compare(a.name, b.name) })
	for _, cmd := range commands {
		byName[cmd.name] = cmd
	}
}

// lookup finds a command by its name in any case, or returns nil.
func lookup(name []byte) *command {
	var low [16]byte
	if len(name) > len(low) {
		return nil
	}
	for i, b := range name {
		if 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		low[i] = b
	}
	return byName[string(low[:len(name)])]
}

// Codes of answers, for metrics.
const (
	codeOK          = "ok"
	codeAllowed     = "allowed"
	codeRefused     = "refused"
	codeInvalid     = "invalid"     // an error of the caller
	codeDenied      = "denied"      // the caller lacks a permission or a valid credential
	codeNoLimit     = "no_limit"    // the limit does not exist
	codeUnavailable = "unavailable" // an error of the node
	codeProtocol    = "protocol"    // bytes that are not a command
)

// Codes returns all codes that Options.Count is called with.
func Codes() []string {
	return []string{codeOK, codeAllowed, codeRefused, codeInvalid, codeDenied, codeNoLimit, codeUnavailable, codeProtocol}
}

// answer runs one command, or queues it for EXEC or decideChecks. It counts each command once: when the
// command runs or is refused.
func (c *conn) answer(args [][]byte) {
	c.code = codeOK
	cmd, n := lookup(args[0]), len(args)-1
	if cmd != nil && cmd.check != nil && n >= cmd.least && n <= cmd.most && !c.tx.open {
		c.addCheck(cmd, args[1:])
		return
	}
	c.decideChecks()
	c.code = codeOK
	switch {
	case cmd == nil:
		c.spoil()
		c.invalid("ERR unknown command '%s' (nodes store no values: call QUORATE.ALLOW or CL.THROTTLE); known: %s", clip(args[0]), names())
		// A typed line that is not a command comes from another protocol, such as HTTP: the rest is
		// not meant for this server.
		c.done = c.done || c.in.line
	case n < cmd.least || n > cmd.most:
		c.spoil()
		usage := ""
		if cmd.usage != "" {
			usage = "; usage: " + strings.ToUpper(cmd.name) + " " + cmd.usage
		}
		c.invalid("ERR wrong number of arguments for '%s' command%s", cmd.name, usage)
	case c.tx.open && !cmd.now:
		c.queue(args)
		if c.code == codeOK {
			return
		}
	default:
		cmd.serve(c, args[1:])
	}
	c.opts.Count(c.code)
}

func names() string {
	var out []string
	for _, cmd := range commands {
		out = append(out, strings.ToUpper(cmd.name))
	}
	return strings.Join(out, " ")
}

// failed answers with an error. code is for metrics.
func (c *conn) failed(code, format string, args ...any) {
	c.code = code
	c.fail(fmt.Sprintf(format, args...))
}

func (c *conn) invalid(format string, args ...any) { c.failed(codeInvalid, format, args...) }

// clip shortens a caller's text for an error message.
func clip(text []byte) string {
	const most = 64
	if len(text) <= most {
		return strings.ToValidUTF8(string(text), "?")
	}
	text = text[:most]
	for len(text) > 0 && !utf8.RuneStart(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	return strings.ToValidUTF8(string(text), "?") + "..."
}

var errNumber = errors.New("not a number")

// number parses an integer of at most 18 digits.
func number(text []byte) (int64, error) {
	digits, negative := text, false
	if len(digits) > 0 && digits[0] == '-' {
		digits, negative = digits[1:], true
	}
	if len(digits) == 0 || len(digits) > 18 {
		return 0, errNumber
	}
	var n int64
	for _, b := range digits {
		if b < '0' || b > '9' {
			return 0, errNumber
		}
		n = n*10 + int64(b-'0')
	}
	if negative {
		n = -n
	}
	return n, nil
}

// numberIn parses argument field, which must be low to high, or answers with an error.
func (c *conn) numberIn(field string, text []byte, low, high int64) (int64, bool) {
	n, err := number(text)
	if err != nil || n < low || n > high {
		c.invalid("ERR %s: %s; must be %d to %d", field, clip(text), low, high)
		return 0, false
	}
	return n, true
}
