// Package config reads the files that people write: the settings of a node, limit files,
// overrides, operations and policies. It is strict, and reports all faults of a file at
// once, each with its place.
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
// All files go the same way. [report.documents] checks the bytes (4 MiB, UTF-8, no control
// characters, no tabs to indent with) and parses the YAML. A [Value] is one YAML node with
// its path, line and column; it reads maps of known fields, maps by name, lists and
// scalars. Fields are data ([]Field), so that the JSON schemas can be written from them. A
// scalar reads one value from its text, from a file and from a variable alike.
//
// Anchors, aliases, merge keys and tags are faults: nothing is ever expanded, so a small
// file cannot become a large one. Null is not a value either.
//
// Two kinds of fault hide others. A forbidden byte and an error in the YAML itself are
// reported (all bad lines, and the first error) without looking at the fields, because
// what follows them has no certain meaning. At most 1000 faults of one source are listed.
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
// docs/limits.md is the reference. A limit is read into a draft: its fields as they stand
// in the file, with their places (limit_fields.go). What a field means depends on which
// others are there, so the limit is made once all are read: from exactly one of the forms
// that say what is counted (limit_form.go, tier_form.go). Then package quota checks the
// limit, and at last all limits together; its errors begin with the name of a field, by
// which they get their place (limit_check.go). slas.go reads limits for HTTP requests.
//
// [FormatLimits] writes the same form, and reading it back gives the same limits.
// docs/schema/limits.json describes the form to editors, by a first line of
//
//	# yaml-language-server: $schema=<path or URL of docs/schema/limits.json>
//
// # Linter
//
// [Lint] warns of limits that are valid, but probably not meant. A rule is a function of
// one limit, with all others at hand (lint_rules.go, lint_tiers.go, lint_names.go). Rule
// names do not change. Most rules ask whether one tier can ever admit more than another;
// within answers that from the most that a tier admits in any stretch of time.
//
// # Converters
//
// [Convert] reads the configurations of other systems, as strictly. What has no
// counterpart becomes a [Note].
//
// # Node settings
//
// A node's settings come in layers: defaults, then the file, then the environment; flags
// are the command's, and come last. Each setting has a path (listen.http) and a variable
// made from it (QUORATE_LISTEN_HTTP); the table in settings.go is the only list. Lists of
// nodes and addresses are written with commas in variables
// (n1=10.0.0.1:7413,n2=10.0.0.2:7413), bindings and grants as YAML. An unknown QUORATE_
// variable is a fault, except those of the client commands and those that Kubernetes sets.
//
// Relative paths in a file start from its directory, so that a node finds its data
// wherever it is started from; in variables, and without a file, they start from the
// working directory.
//
// # Out of scope
//
// No reloading, no includes, no templates, no interpolation of variables. Package quota
// says what limits mean.
package config
