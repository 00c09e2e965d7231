// Package check tests the files in deploy against the program: every setting, variable, flag,
// port and path of the chart, the units, the compose file and the container file must be one
// that quorate has. It is a separate Go module, because programs that link Quorate do not need
// the dependencies that read these files.
//
// The tests render the chart with Helm's own engine, load the resulting settings with the
// node's loader, and pass the unit to systemd-analyze. They run no cluster from these files:
// that needs Kubernetes, Docker, or systemd as the first process.
package check
