// Package scenario parses scenario files for the simulator, plays them, and checks the outcome
// against what the file expects.
//
//	seed: 1
//	duration: 20s
//	nodes: 10
//	limit: {rate: 1000/s, burst: 1000}
//	load:
//	  - {rate: 3x, spread: even}
//	faults:
//	  - {at: 8s, kill: leader}
//	expect:
//	  net_pct: 0.5
//
// docs/reference/simulator.md is the reference. Files are read by the decoder of package config, which
// reports all errors at once with line and column; limits have the form of a limit file. The range
// of some fields depends on others (nodes, duration, the limit), so a document's fields are read in
// a fixed order, not in that of the file.
//
// A file with several documents has several scenarios.
package scenario
