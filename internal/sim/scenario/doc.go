// Package scenario reads scenario files for the simulator, plays them, and holds
// the outcome to what the file expects.
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
// docs/simulator.md is the reference of the form. Files are read by the decoder
// of package config, which says every fault at once with its line and column;
// limits are those of a limit file. What a field may say depends on others
// (nodes, duration, the limit), so a document's fields are read in an order of
// their own, not that of the file.
//
// A file has several scenarios if it has several documents.
package scenario
