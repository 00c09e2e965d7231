// Package check holds what is in deploy to the program that it runs: every setting,
// variable, flag, port and path of the chart, the units, the compose file and the container
// file must be one that quorate has. It is a module of its own, for what it needs to read
// them is of no use to anybody who links Quorate.
//
// The chart goes through Helm's own engine, the unit through systemd-analyze, and what the
// chart makes of settings through the loader of a node. Nothing here runs a cluster from
// them: that needs Kubernetes, Docker, or systemd as the first process.
package check
