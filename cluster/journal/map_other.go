//go:build !unix

package journal

import (
	"fmt"
	"os"
	"runtime"
)

func mapShared(*os.File, int64, int) ([]byte, error) {
	return nil, fmt.Errorf("journalling is off: this version cannot map files on %s", runtime.GOOS)
}

func unmap([]byte) {}
