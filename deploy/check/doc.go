// Package check holds what is in deploy to the program that it runs: every setting,
// variable, flag, port and path of the chart, the units, the compose file and the container
// file must be one that quorate has. It is a module of its own, for what it needs to read
// them is of no use to anybody who links Quorate.
//
// What it renders and runs is what a user would: the chart goes through Helm's own engine,
// the unit through systemd-analyze, the compose file through Compose's own loader. The
// settings that the chart makes are those of a cluster that really runs, in network
// namespaces, one to a pod.
package check
