package inprocess

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/bench/suite"
)

// Groups returns the tables of this package; those of many keys have the given number.
func Groups(keys int) []suite.Group {
	var out []suite.Group
	for _, procs := range []int{1, 2} {
		out = append(out, hot(procs), refused(procs))
	}
	for _, dist := range []string{"zipf", "uniform"} {
		out = append(out, keyed(keys, dist), keyedClient(keys, dist))
	}
	out = append(out, memory(keys), residentClient())
	return out
}

func hot(procs int) suite.Group {
	most := 0.15
	if procs > 1 {
		most = 0.2
	}
	return suite.Group{
		Name:  fmt.Sprintf("hot-%dcpu", procs),
		Title: fmt.Sprintf("One key, allowed, %d CPU", procs),
		Note: "All goroutines, one for each CPU, check the same bucket, which has enough tokens. CPU is the CPU time of their threads per decision; " +
			"wall is elapsed time; all is the CPU time of the whole process, including its background work.",
		Measures: loopMeasures, Reference: timeRate,
		Subjects: append(hotOurs(enough, suite.Target{Measure: cpuTime, AtMost: most, Times: timeRate}), hotPeers(enough)...),
		Full:     200 * time.Millisecond, Quick: 50 * time.Millisecond, Procs: procs,
	}
}

func refused(procs int) suite.Group {
	return suite.Group{
		Name:     fmt.Sprintf("refused-%dcpu", procs),
		Title:    fmt.Sprintf("One key, refused, %d CPU", procs),
		Note:     "As above, but with an empty bucket, so that every decision is a refusal.",
		Measures: loopMeasures, Reference: timeRate,
		Subjects: append(hotOurs(never, suite.Target{Measure: cpuTime, AtMost: 0.35, Times: timeRate}), hotPeers(never)...),
		Full:     200 * time.Millisecond, Quick: 50 * time.Millisecond, Procs: procs,
	}
}

func keyed(keys int, dist string) suite.Group {
	return suite.Group{
		Name:  "keyed-" + dist,
		Title: fmt.Sprintf("%s keys of 24 bytes, %s, 1 CPU", suite.Number(float64(keys)), dist),
		Note: "Every table holds all keys. The 262,144 requests were drawn beforehand (Zipf: s = 1.1), " +
			"into memory of their own; all rows include the time to read them.",
		Measures: loopMeasures, Reference: timeRateXsync,
		Subjects: keyedSubjects(keys, dist, suite.Target{Measure: cpuTime, AtMost: 0.3, Times: timeRateXsync}, suite.Target{Measure: allocs, AtMost: 0.001}),
		Full:     300 * time.Millisecond, Quick: 100 * time.Millisecond, Procs: 1,
	}
}

func keyedClient(keys int, dist string) suite.Group {
	return suite.Group{
		Name:  "keyed-client-" + dist,
		Title: fmt.Sprintf("A client of %s keys of 24 bytes, %s, 1 CPU", suite.Number(float64(keys)), dist),
		Note: "A program that links the client and asks by name. Held: its node has given it plenty of every key. " +
			"Flat out: attached to a real node and asking as fast as it can, so that it uses up what it has been given before the next report.",
		Measures: loopMeasures, Reference: timeRateXsync,
		Subjects: clientSubjects(keys, dist, suite.Target{Measure: cpuTime, AtMost: 0.3, Times: timeRateXsync}),
		Full:     300 * time.Millisecond, Quick: 100 * time.Millisecond, Procs: 1,
	}
}
