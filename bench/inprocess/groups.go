package inprocess

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/bench/suite"
)

// Groups are the tables of this package.
func Groups() []suite.Group {
	var out []suite.Group
	for _, procs := range []int{1, 2} {
		out = append(out, hot(procs))
	}
	return out
}

const timeRate = "x/time/rate"

func hot(procs int) suite.Group {
	return suite.Group{
		Name:      fmt.Sprintf("hot-%dcpu", procs),
		Title:     fmt.Sprintf("One key, allowed, %d CPU", procs),
		Note:      "All goroutines ask for the same bucket, which has enough. CPU is the time of the callers' threads per decision.",
		Measures:  loopMeasures,
		Reference: timeRate,
		Subjects:  hotPeers(),
		Full:      200 * time.Millisecond, Quick: 60 * time.Millisecond,
		Procs: procs,
	}
}
