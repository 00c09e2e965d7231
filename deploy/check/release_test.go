package check

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestStatic checks that the release binary reports its version and is statically linked.
func TestStatic(t *testing.T) {
	out, err := exec.Command(staticBinary(t), "version", "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var b struct {
		Version string
		Static  bool
	}
	if err := json.Unmarshal(out, &b); err != nil || b.Version != "1.2.3-test" || !b.Static {
		t.Errorf("%s: %v", out, err)
	}
}

// TestBill checks that the bill of materials is valid by the CycloneDX schema, and that the
// CycloneDX library reads the binary's version and components from it. The schemas come with
// the library.
func TestBill(t *testing.T) {
	out, err := exec.Command(staticBinary(t), "version", "-o", "cyclonedx").Output()
	if err != nil {
		t.Fatal(err)
	}
	bill, err := jsonschema.UnmarshalJSON(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	if err := billSchema(t).Validate(bill); err != nil {
		t.Error(err)
	}
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(out), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if bom.Metadata.Component.Version != "1.2.3-test" || len(*bom.Components) < 40 {
		t.Errorf("it is of %s, with %d components", bom.Metadata.Component.Version, len(*bom.Components))
	}
	bill.(map[string]any)["components"].([]any)[0].(map[string]any)["type"] = "thing"
	if err := billSchema(t).Validate(bill); err == nil {
		t.Error("the schema lets anything pass")
	}
}

func billSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	for url, file := range map[string]string{
		"http://cyclonedx.org/schema/bom-1.5.schema.json":  "bom-1.5.schema.json",
		"http://cyclonedx.org/schema/spdx.schema.json":     "spdx.schema.json",
		"http://cyclonedx.org/schema/jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(read(t, filepath.Join(strings.TrimSpace(string(dir)), "schema", file))))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource(url, doc); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := c.Compile("http://cyclonedx.org/schema/bom-1.5.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// TestDist checks that the build is reproducible: two clones of a commit, in different
// directories and with different umasks and time zones, build byte-identical archives and bills
// of materials with equal checksums.
func TestDist(t *testing.T) {
	if testing.Short() {
		t.Skip("builds everything twice; left out by -short")
	}
	head, err := exec.Command("git", "-C", "../..", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	commit := strings.TrimSpace(string(head)) // fixed, so that a new commit cannot reach only the second clone
	var sums [2]string
	for i, umask := range []string{"022", "077"} {
		dir := filepath.Join(t.TempDir(), strings.Repeat("deeper/", i)+"quorate")
		if out, err := exec.Command("git", "clone", "-q", "../..", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if out, err := exec.Command("git", "-C", dir, "checkout", "-q", "--detach", commit).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		cmd := exec.Command("sh", "-c", "umask "+umask+"; exec make --no-print-directory dist PLATFORMS=linux/amd64 VERSION=1.2.3-test")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "TZ="+[]string{"Asia/Tokyo", "UTC"}[i])
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		sums[i] = read(t, filepath.Join(dir, "dist/quorate_1.2.3-test_checksums.txt"))
		var bill struct {
			Metadata struct{ Component struct{ Version string } }
		}
		if err := json.Unmarshal([]byte(read(t, filepath.Join(dir, "dist/quorate_1.2.3-test_linux_amd64.cdx.json"))), &bill); err != nil || bill.Metadata.Component.Version != "1.2.3-test" {
			t.Errorf("the bill is of %q: %v", bill.Metadata.Component.Version, err)
		}
	}
	if sums[0] != sums[1] || strings.Count(sums[0], "\n") != 2 {
		t.Errorf("once\n%s\nand then\n%s", sums[0], sums[1])
	}
	t.Log(sums[0])
}
