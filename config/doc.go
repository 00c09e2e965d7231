// Package config reads what people write: the settings of a node, and limit
// files. It is strict, and says every fault at once, each with its place.
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
//	bytes --source.go--> YAML nodes --decode.go--> fields --scalar.go--> values
//
// Both kinds of file go the same way. [report.root] checks the bytes (4 MiB,
// UTF-8, no control characters, no tabs to indent with) and parses one YAML
// document. A decoder walks its nodes, which know their line and column: maps
// of known fields, maps by name, lists, scalars. What fields there are is data
// ([]field), so that a test can hold the JSON schema to it. A scalar reads one
// value from its text, and is the same for a file and for a variable.
//
// Anchors, aliases, merge keys and tags are faults: nothing is ever expanded,
// so no small file can become a large one. Null is not a value either.
//
// Two faults hide others. A byte that does not belong, and a mistake in the
// YAML itself, are reported (all bad lines, and the first mistake) without
// looking at the fields, because what follows them has no sure meaning. And of
// one source at most 1000 faults are listed.
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
// docs/limits.md is the reference of the form. A limit is first a draft: its
// fields as they stand in the file, with their places (limit_fields.go). What
// they mean depends on which are there, so that is decided when all are read
// (limit_form.go, tier_form.go): one of the forms that say what is counted, and no field of
// another. Then package quota checks the limit, and at last all together for
// what they say of each other; its errors begin with the name of a field, which
// is how they find their place (limit_check.go). slas.go reads the limits that
// are written for HTTP requests.
//
// [FormatLimits] writes the same form, one way for each limit; reading it back
// gives the same limits. docs/schema/limits.json describes the form to
// editors, by a first line of
//
//	# yaml-language-server: $schema=<path or URL of docs/schema/limits.json>
//
// [ParseOverrides] reads overrides of single keys in the same strict way.
//
// # Linter
//
// [Lint] warns of what is valid, but probably not meant. A rule is a function
// of one limit, with all others at hand (lint_rules.go, lint_tiers.go,
// lint_names.go); its name is for people and for switches to come, so it does
// not change. Most rules ask whether one tier can ever admit more than another:
// within answers that from the most that a tier admits in any stretch of time.
//
// # Converters
//
// [Convert] reads the configurations of other systems with the same decoder,
// and as strictly. What has no counterpart here becomes a [Note].
//
// # Node settings
//
// A node's settings are layered: defaults, then the file, then the
// environment. Flags come last, and are the command's. Each setting has a path
// (listen.http) and a variable made from it (QUORATE_LISTEN_HTTP); the table
// in settings.go is the only list. QUORATE_NODES is written as
// n1=10.0.0.1:7413,n2=10.0.0.2:7413. An unknown QUORATE_ variable is a fault,
// except those of the client commands and those that Kubernetes makes.
//
// Relative paths start from the directory of the file that says them, so that
// a node finds its data wherever it is started from; in variables, and without
// a file, from the working directory.
//
// # Out of scope
//
// No reloading, no includes, no templates, no interpolation of variables. What
// limits mean is in package quota.
package config
