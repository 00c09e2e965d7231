package archive

import (
	"errors"

	"github.com/quorate/quorate/internal/history"
)

var errCoverage = errors.New("damaged coverage")

// appendCoverage appends the encoded coverage to b: one byte for Complete, then the missing
// processes. It omits the start, which is in the key. decodeCoverage is its inverse.
func appendCoverage(b []byte, c *Coverage) []byte {
	complete := byte(0)
	if c.Complete {
		complete = 1
	}
	return history.AppendProcesses(append(b, complete), c.Missing)
}

func decodeCoverage(b []byte) (Coverage, error) {
	if len(b) == 0 || b[0] > 1 {
		return Coverage{}, errCoverage
	}
	missing, err := history.DecodeProcesses(b[1:])
	return Coverage{Complete: b[0] == 1, Missing: missing}, err
}
