package resp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/api/auth"
	"github.com/quorate/quorate/internal/rbac"
)

// The versions that the server reports: its own, and the Redis version whose handshake it
// implements, which client libraries check.
const (
	serverName   = "quorate"
	redisVersion = "7.2.0"
)

const (
	maxFailures = 3   // of AUTH, until the connection is closed
	maxName     = 128 // bytes of CLIENT SETNAME
	// again is how long a caller is cached, and so the longest time that an open connection
	// outlives the trust in it.
	again = 10 * time.Second
)

func (c *conn) ping(args [][]byte) {
	if len(args) == 0 {
		c.simple("PONG")
		return
	}
	c.bytes(args[0])
}

func (c *conn) quit([][]byte) {
	c.simple("OK")
	c.done = true
}

func (c *conn) selectDB(args [][]byte) {
	if string(args[0]) != "0" {
		c.invalid("ERR DB index is out of range; only 0 exists")
		return
	}
	c.simple("OK")
}

// hello answers HELLO [version [AUTH user token] [SETNAME name]].
func (c *conn) hello(args [][]byte) {
	three, name := c.three, c.name
	var token []byte
	if len(args) > 0 {
		switch string(args[0]) {
		case "2", "3":
			three = args[0][0] == '3'
		default:
			c.invalid("NOPROTO unsupported protocol version %s; supported: 2 and 3", clip(args[0]))
			return
		}
		args = args[1:]
	}
	for len(args) > 0 {
		switch option := strings.ToUpper(string(args[0])); {
		case option == "AUTH" && len(args) >= 3:
			token, args = args[2], args[3:]
		case option == "SETNAME" && len(args) >= 2 && goodName(args[1]):
			name, args = string(args[1]), args[2:]
		default:
			c.invalid("ERR syntax error in HELLO at '%s'; write HELLO [2|3 [AUTH user token] [SETNAME name]]", clip(args[0]))
			return
		}
	}
	if token != nil && !c.authenticate(token) {
		return
	}
	c.three, c.name = three, name
	c.greet()
}

func (c *conn) greet() {
	c.mapping(7)
	c.text("server")
	c.text(serverName)
	c.text("version")
	c.text(redisVersion)
	c.text("proto")
	if c.three {
		c.int(3)
	} else {
		c.int(2)
	}
	c.text("id")
	c.int(c.id)
	c.text("mode")
	c.text("standalone")
	c.text("role")
	c.text("master")
	c.text("modules")
	c.array(0)
}

// auth answers AUTH [user] token. The token identifies the caller, whatever user is.
func (c *conn) auth(args [][]byte) {
	if c.authenticate(args[len(args)-1]) {
		c.simple("OK")
	}
}

// authenticate sets the credential of the connection, or answers with an error. After an error the
// connection keeps its previous credential.
func (c *conn) authenticate(token []byte) bool {
	if c.opts.Guard == nil {
		c.invalid("ERR AUTH: authentication is off on this node; leave the token out, or turn it on (auth.mode)")
		return false
	}
	header := []string{"Bearer " + string(token)}
	caller, err := c.identify(header)
	if err != nil {
		c.failed(codeDenied, "WRONGPASS %v", err)
		c.opts.Denied("AUTH", nil, c.address(), err)
		c.failures++
		c.done = c.done || c.failures >= maxFailures
		return false
	}
	c.header, c.caller, c.known = header, caller, c.opts.Now()
	return true
}

func (c *conn) identify(header []string) (*auth.Caller, error) {
	ctx, cancel := context.WithTimeout(context.Background(), identifyTime)
	defer cancel()
	return c.opts.Guard.Identify(ctx, c.tls, header)
}

// may reports whether the caller may run a command in a namespace; if not, it answers with an
// error.
func (c *conn) may(command, namespace string) bool {
	if c.opts.Guard == nil {
		return true
	}
	if !c.identified(command) {
		return false
	}
	err := c.opts.Guard.Check(c.caller, rbac.Check, rbac.Namespace(namespace), command)
	if err == nil {
		return true
	}
	word, wayOut := "NOPERM", fmt.Sprintf("an administrator can grant it: quorate roles bind %q checker --namespace %s", c.caller.Identity, namespace)
	if denied, ok := errors.AsType[*auth.DeniedError](err); ok && denied.Caller.Credential == auth.None {
		word, wayOut = "NOAUTH", "send AUTH with a bearer token (quorate tokens create)"
	}
	c.failed(codeDenied, "%s %v; %s", word, err, wayOut)
	c.opts.Denied(command, c.caller, c.address(), err)
	return false
}

// identified sets c.caller, and identifies the caller again every 10 s. If the caller is unknown,
// it answers with the error and returns false.
func (c *conn) identified(command string) bool {
	now := c.opts.Now()
	if c.caller != nil && now.Sub(c.known) < again {
		return true
	}
	caller, err := c.identify(c.header)
	if err != nil {
		c.failed(codeDenied, "NOAUTH %v", err)
		c.opts.Denied(command, nil, c.address(), err)
		return false
	}
	c.caller, c.known = caller, now
	return true
}

// owner is the result of Options.Owner for a caller.
type owner struct {
	caller *auth.Caller
	name   string
}

// shareOwner returns the owner to whose share of the bounds the connection counts.
func (c *conn) shareOwner() string {
	if c.owner.name == "" || c.owner.caller != c.caller {
		c.owner = owner{c.caller, c.opts.Owner(c.caller, c.address())}
	}
	return c.owner.name
}

func (c *conn) address() string {
	text := c.raw.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(text); err == nil {
		return host
	}
	return text
}

// goodName reports whether CLIENT SETNAME accepts a name.
func goodName(name []byte) bool {
	for _, b := range name {
		if b <= ' ' || b > '~' {
			return false
		}
	}
	return len(name) <= maxName
}

// client answers CLIENT, by which libraries describe themselves when they connect.
func (c *conn) client(args [][]byte) {
	what := strings.ToUpper(string(args[0]))
	switch args = args[1:]; {
	case what == "ID" && len(args) == 0:
		c.int(c.id)
	case what == "GETNAME" && len(args) == 0 && c.name == "":
		c.null()
	case what == "GETNAME" && len(args) == 0:
		c.text(c.name)
	case what == "SETNAME" && len(args) == 1 && goodName(args[0]):
		c.name = string(args[0])
		c.simple("OK")
	case what == "SETNAME" && len(args) == 1:
		c.invalid("ERR CLIENT SETNAME: a name has at most %d bytes, and no spaces", maxName)
	case what == "SETINFO" && len(args) == 2: // not used here
		c.simple("OK")
	case what == "INFO" && len(args) == 0:
		c.text("id=" + strconv.FormatInt(c.id, 10) + " addr=" + c.raw.RemoteAddr().String() + " name=" + c.name + " db=0\n")
	default:
		c.invalid("ERR unknown subcommand '%s' of CLIENT, or wrong number of arguments; known: ID GETNAME SETNAME SETINFO INFO", clip([]byte(what)))
	}
}
