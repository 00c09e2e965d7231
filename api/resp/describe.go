package resp

import "strings"

// info answers INFO with the fields that libraries use, for any section.
func (c *conn) info([][]byte) {
	c.text("# Server\r\nredis_version:" + redisVersion + "\r\nredis_mode:standalone\r\nserver_name:" + serverName +
		"\r\n\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n# Cluster\r\ncluster_enabled:0\r\n")
}

// command answers COMMAND, COMMAND COUNT, COMMAND INFO [name ...] and COMMAND
// DOCS [name ...].
func (c *conn) command(args [][]byte) {
	what := ""
	if len(args) > 0 {
		what = strings.ToUpper(string(args[0]))
		args = args[1:]
	}
	switch {
	case what == "" || what == "INFO" && len(args) == 0:
		c.array(len(commands))
		for _, cmd := range commands {
			c.describe(cmd)
		}
	case what == "COUNT" && len(args) == 0:
		c.int(int64(len(commands)))
	case what == "INFO":
		c.array(len(args))
		for _, name := range args {
			c.describe(lookup(name))
		}
	case what == "DOCS":
		c.docs(args)
	default:
		c.invalid("ERR unknown subcommand '%s' of COMMAND; known: COUNT DOCS INFO", clip([]byte(what)))
	}
}

// describe writes a command's entry: its name, its arity including the name (negative: at least
// that many), flags, and the positions of its keys.
func (c *conn) describe(cmd *command) {
	if cmd == nil {
		c.noArray()
		return
	}
	arity := int64(cmd.least) + 1
	if cmd.most != cmd.least {
		arity = -arity
	}
	c.array(6)
	c.text(cmd.name)
	c.int(arity)
	c.array(1)
	c.simple("fast")
	for range 2 { // the first and the last key
		c.int(int64(cmd.key))
	}
	c.int(int64(min(cmd.key, 1))) // the step between keys
}

func (c *conn) docs(names [][]byte) {
	list := commands
	if len(names) > 0 {
		list = nil
		for _, name := range names {
			if cmd := lookup(name); cmd != nil {
				list = append(list, cmd)
			}
		}
	}
	c.mapping(len(list))
	for _, cmd := range list {
		c.text(cmd.name)
		c.mapping(2)
		c.text("summary")
		c.text(cmd.summary)
		c.text("group")
		c.text("generic")
	}
}
