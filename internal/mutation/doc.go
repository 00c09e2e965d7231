// Package mutation tests the tests of the core: it makes small faults in leader, aggregator, clientledger and
// internal/fairshare, one after the other, and checks that the quick tests or 1,000 runs of the simulator
// find each of them. "make mutations" runs it, and writes docs/development/mutations.md. "make mended-faults"
// takes the mends of known faults out, and writes docs/development/mended-faults.md.
package mutation
