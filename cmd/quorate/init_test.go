package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/docs/schema"
	"github.com/quorate/quorate/internal/cli"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/server"
)

// TestInitNamesTheSchema checks that the settings that init writes name the schema that this
// repository publishes.
func TestInitNamesTheSchema(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "n1")
	var said strings.Builder
	if code := cli.Run(t.Context(), []string{"init", "--data", dir, "--insecure"}, &said, &said); code != exit.OK {
		t.Fatalf("exit code %d: %s", code, &said)
	}
	text, err := os.ReadFile(filepath.Join(dir, server.SettingsFile))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	path, ok := strings.CutPrefix(first, "# yaml-language-server: $schema=https://raw.githubusercontent.com/quorate/quorate/main/")
	if !ok {
		t.Fatalf("the first line is %q", first)
	}
	published, err := os.ReadFile(filepath.Join("../..", path))
	if err != nil || string(published) != string(schema.Of("node")) || !json.Valid(published) {
		t.Errorf("%s is not the schema of a node's settings: %v", path, err)
	}
}
