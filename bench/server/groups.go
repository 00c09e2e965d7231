package server

import (
	"time"

	"github.com/quorate/quorate/bench/suite"
)

// Names of the loads, as in the table of targets.
const (
	unaryCallers  = 64
	batchCallers  = 16
	batchSize     = 1000
	streams       = 64
	grpcConns     = 4
	redisConns    = 64
	redisPipeline = 16
)

// Measures of all tables in this package.
const (
	cpu  = "CPU"
	rate = "rate"
	p50  = "p50"
	p99  = "p99"
)

var measures = []suite.Measure{
	{Name: cpu, Unit: "µs"},
	{Name: rate, Unit: "1/s", More: true},
	{Name: p50, Unit: "µs"},
	{Name: p99, Unit: "µs"},
}

const (
	empty   = "empty server"
	quorate = "Quorate"
)

// Groups returns the tables of this package.
func Groups() []suite.Group {
	return append([]suite.Group{unary(), batch(), streamed(), open(), web(), redis(), idle()}, accountGroups()...)
}

func group(name, title, note string, subjects ...suite.Subject) suite.Group {
	return suite.Group{
		Name: name, Title: title, Note: note + " CPU is the servers' CPU time per operation.",
		Measures: measures, Reference: subjects[0].Name, Subjects: subjects,
		Full: 1200 * time.Millisecond, Quick: 500 * time.Millisecond,
	}
}

func atMost(measure string, most float64, times string) suite.Target {
	return suite.Target{Measure: measure, AtMost: most, Times: times}
}

func atLeast(measure string, least float64, times string) suite.Target {
	return suite.Target{Measure: measure, AtLeast: least, Times: times}
}

func unary() suite.Group {
	load := func(d *dialled) load { return d.closed(unaryCallers, allowMethod, singles(), 1) }
	return group("grpc-unary", "gRPC, one check a call, 64 callers", "10,000 keys of 24 bytes, none of which runs out.",
		emptyGRPC(load),
		ours(quorate, 1, overGRPC(load), atMost(cpu, 1.15, empty), atLeast(rate, .85, empty)),
		ours(quorate+", any of 3 nodes", 3, overGRPC(load), atMost(cpu, 1.2, empty)),
		emptyDefault(load))
}

func batch() suite.Group {
	load := func(d *dialled) load { return d.closed(batchCallers, batchMethod, batches(), batchSize) }
	return group("grpc-batch", "gRPC, 1000 checks a call, 16 callers", "An operation is one check.",
		emptyGRPC(load),
		ours(quorate, 1, overGRPC(load), atMost(cpu, .35, ""), atLeast(rate, 2.5e6, "")))
}

func streamed() suite.Group {
	load := func(d *dialled) load { return d.streamed(streams, singles()) }
	return group("grpc-stream", "gRPC, checks on 64 streams", "One check is in flight on each stream.",
		emptyGRPC(load),
		ours(quorate, 1, overGRPC(load), atLeast(rate, .7, empty)))
}

func open() suite.Group {
	half := &halfOfMaximum{}
	return group("grpc-open", "gRPC, one check a call, open loop at half of the maximum",
		"The maximum is that of the slower server, measured at the start; both get the same rate. Calls are sent whether or not others have been answered; latency counts from the moment that a call was due.",
		emptyGRPC(half.load),
		ours(quorate, 1, overGRPC(half.load), atMost(p99, 1.3, empty)))
}
