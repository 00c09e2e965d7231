//go:build !linux && !darwin

package raftgroup

import "errors"

var freeSpace = func(string) (uint64, error) { return 0, errors.ErrUnsupported }
