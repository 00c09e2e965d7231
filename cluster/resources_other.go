//go:build !linux

package cluster

import (
	"errors"
	"time"
)

func processUsage() (cpu time.Duration, resident uint64, err error) {
	return 0, 0, errors.ErrUnsupported
}
