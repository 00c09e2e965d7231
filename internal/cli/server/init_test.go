package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInitLongNodeID checks that init refuses an id with whose certificate every call would be refused, before it writes
// anything.
func TestInitLongNodeID(t *testing.T) {
	for _, c := range []struct {
		length int
		plain  bool
		want   string
	}{
		{123, false, ""},
		{124, false, "--node: is 124 bytes; at most 123, so that node:NAME has at most 128"},
		{128, true, ""}, // no certificate
	} {
		dir := filepath.Join(t.TempDir(), "data")
		o := initOptions{cluster: "test", ranges: 1, replicas: 1, plain: c.plain}
		o.data, o.node, o.host, o.http, o.grpc, o.peer = dir, strings.Repeat("x", c.length), "127.0.0.1", ":7411", ":7412", ":7413"
		err := o.run(&strings.Builder{})
		if got := textOf(err); got != c.want {
			t.Errorf("%d bytes: %q; want %q", c.length, got, c.want)
		}
		if _, err := os.Stat(dir); (err == nil) != (c.want == "") {
			t.Errorf("%d bytes: the directory: %v", c.length, err)
		}
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
