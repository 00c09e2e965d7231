package main

import (
	"encoding/json"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/cli"
	"github.com/quorate/quorate/internal/cli/build"
	"github.com/quorate/quorate/internal/cli/exit"
)

func versionSays(t *testing.T, args ...string) string {
	t.Helper()
	var out, msg strings.Builder
	if code := cli.Run(t.Context(), append([]string{"version"}, args...), &out, &msg); code != exit.OK {
		t.Fatalf("exit code %d: %s", code, &msg)
	}
	return out.String()
}

// TestVersion checks that a binary reports its version, and that of another binary.
func TestVersion(t *testing.T) {
	if got := versionSays(t); !regexp.MustCompile(`^quorate \S+ \(\S+(, with changes)?, go1\.\S+, \w+/\w+\)\n$`).MatchString(got) {
		t.Errorf("%q", got)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-o", "json"}, {"-o", "json", "--of", self}} {
		var b build.Info
		if err := json.Unmarshal([]byte(versionSays(t, args...)), &b); err != nil {
			t.Fatal(err)
		}
		if b.Version != build.Version || b.Platform != runtime.GOOS+"/"+runtime.GOARCH || b.GoVersion != runtime.Version() || b.Revision == "" {
			t.Errorf("%v: %+v", args, b)
		}
	}
	var out, msg strings.Builder
	if code := cli.Run(t.Context(), []string{"version", "--of", "version.go"}, &out, &msg); code == exit.OK {
		t.Error("a file that is no binary is taken for one")
	}
}

// TestMaterials checks that the bill of materials lists every module that go.mod requires and the
// binary links, with version and checksum, and that it is the same each time.
func TestMaterials(t *testing.T) {
	text := versionSays(t, "-o", "cyclonedx")
	if text != versionSays(t, "-o", "cyclonedx") {
		t.Error("it differs from one time to the next")
	}
	var b build.Bill
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		t.Fatal(err)
	}
	if b.Format != "CycloneDX" || b.Spec != "1.5" || b.Metadata.Component.Name != "github.com/quorate/quorate" {
		t.Errorf("%+v", b.Metadata)
	}
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range b.Components {
		if m.Name != "std" && (!strings.Contains(string(mod), m.Name+" "+m.Version) || len(m.Hashes) != 1 || len(m.Hashes[0].Content) != 64) {
			t.Errorf("%+v: go.mod has no such module, or it has no checksum", m)
		}
	}
	for _, name := range []string{"std", "google.golang.org/grpc", "github.com/hashicorp/raft", "go.yaml.in/yaml/v4"} {
		if !slices.ContainsFunc(b.Components, func(m build.Material) bool { return m.Name == name }) {
			t.Errorf("%s is missing", name)
		}
	}
}
