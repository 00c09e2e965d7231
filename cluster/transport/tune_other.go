//go:build !linux

package transport

import (
	"net"
	"time"
)

// setUserTimeout does nothing: this system has no such option.
func setUserTimeout(*net.TCPConn, time.Duration) {}
