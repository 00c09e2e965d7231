// Package config reads the files that people write: the settings of a node, limit files, overrides,
// operations and policies. It is strict, and reports all faults of a file at once, each with its
// place.
//
//	limits.yaml:5:21: namespaces.web.limits.login.rate: is "5"; write it as tokens/period, such as 10/s, 5/m or 100/10s
//	    5 |       login: {rate: 5, brust: 5}
//	      |                     ^
//	limits.yaml:5:24: namespaces.web.limits.login.brust: unknown field; did you mean burst?
//	    5 |       login: {rate: 5, brust: 5}
//	      |                        ^
//
// # From bytes to values
//
//	bytes --source.go--> YAML nodes --value.go--> fields --scalar.go--> values
//
// All files take the same path. [report.documents] checks the bytes (4 MiB, UTF-8, no control
// characters, no tabs for indentation) and parses the YAML. A [Value] is one YAML node with its
// path, line and column; it reads maps of known fields, maps by name, lists and scalars. Fields are
// data ([]Field), so the JSON schemas can be derived from them. A scalar reads one value from its
// text, from a file and from a variable alike.
//
// Anchors, aliases, merge keys and tags are faults: the package never expands anything, so a small
// file cannot become a large one. Null is not a valid value either.
//
// Two kinds of fault hide others. After a forbidden byte (all bad lines are reported) or an error
// in the YAML itself (the first one is), the fields are not checked, because the meaning of what
// follows is uncertain. A report lists at most 1000 faults of one source.
//
// # Limit files
//
//	version: 1
//	namespaces:
//	  web:
//	    limits:
//	      per_client: {rate: 10/s, burst: 20}
//	      login:      {rate: 5/m, burst: 5, ceiling: hard}
//
// docs/reference/limits.md is the reference. The reader first makes a draft of each limit: its fields as
// written in the file, with their places (limit_fields.go). The meaning of a field depends on the
// other fields, so the limit is made after all of them are read, from exactly one of the forms of
// what it counts (limit_form.go, tier_form.go). Then package quota checks each limit, and finally
// all limits together; its errors begin with the name of a field, which gives them their place
// (limit_check.go). slas.go reads limits for HTTP requests.
//
// [FormatLimits] writes the same form, and reading it back gives the same limits.
// docs/schema/limits.json describes the form to editors, if the first line is
//
//	# yaml-language-server: $schema=<path or URL of docs/schema/limits.json>
//
// # Linter
//
// [Lint] warns of limits that are valid, but probably not what the author meant. A rule is a
// function of one limit, with access to all others (lint_rules.go, lint_tiers.go, lint_names.go).
// Rule names do not change. Most rules ask whether one tier can ever admit more than another;
// within answers that from the most that a tier admits in any span of time.
//
// # Converters
//
// [Convert] reads the configurations of other systems, just as strictly. What has no counterpart
// becomes a [Note].
//
// # Node settings
//
// A node's settings come in layers: defaults, then the file, then the environment. Flags belong to
// the command, and come last. Each setting has a path (listen.http) and a variable derived from it
// (QUORATE_LISTEN_HTTP); the table in settings.go is the only list. In variables, lists of nodes
// and addresses are separated by commas (n1=10.0.0.1:7413,n2=10.0.0.2:7413), while bindings and
// grants are YAML. An unknown QUORATE_ variable is a fault, except the variables of the client
// commands and those that Kubernetes sets.
//
// Relative paths in a file start from the file's directory, so that a node finds its data from any
// working directory. In variables, and without a file, they start from the working directory.
//
// # Out of scope
//
// The package does not reload, include, template or interpolate variables. Package quota defines
// what limits mean.
package config
