package build

import (
	"encoding/base64"
	"encoding/hex"
	"runtime/debug"
	"strings"
)

// Bill is a bill of materials in the form of CycloneDX 1.5, as far as a Go binary records it. It
// has neither a time nor a serial number, so the same binary always gives the same bill.
type Bill struct {
	Schema     string     `json:"$schema"`
	Format     string     `json:"bomFormat"`
	Spec       string     `json:"specVersion"`
	Version    int        `json:"version"`
	Metadata   billOf     `json:"metadata"`
	Components []Material `json:"components"`
}

type billOf struct {
	Component Material `json:"component"`
}

// Material is one module, or the product itself.
type Material struct {
	Type     string         `json:"type"`
	Ref      string         `json:"bom-ref"`
	Name     string         `json:"name"`
	Version  string         `json:"version"`
	Purl     string         `json:"purl"`
	Licenses []licence      `json:"licenses,omitempty"`
	Hashes   []materialHash `json:"hashes,omitempty"`
}

type licence struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

type materialHash struct {
	Alg     string `json:"alg"`
	Content string `json:"content"`
}

// materials lists the modules of a binary.
func materials(info *debug.BuildInfo, version string) Bill {
	own := moduleMaterial("application", info.Main.Path, version, "")
	own.Licenses = make([]licence, 1)
	own.Licenses[0].License.ID = "Apache-2.0"
	out := Bill{
		Schema: "http://cyclonedx.org/schema/bom-1.5.schema.json", Format: "CycloneDX", Spec: "1.5", Version: 1,
		Metadata:   billOf{own},
		Components: []Material{moduleMaterial("library", "std", strings.TrimPrefix(info.GoVersion, "go"), "")},
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		out.Components = append(out.Components, moduleMaterial("library", m.Path, m.Version, m.Sum))
	}
	return out
}

// moduleMaterial returns the entry of a module. sum is as in go.sum: a SHA-256 over the module's
// files.
func moduleMaterial(kind, path, version, sum string) Material {
	purl := "pkg:golang/" + path + "@" + version
	m := Material{Type: kind, Ref: purl, Name: path, Version: version, Purl: purl}
	if b64, ok := strings.CutPrefix(sum, "h1:"); ok {
		if raw, err := base64.StdEncoding.DecodeString(b64); err == nil {
			m.Hashes = []materialHash{{Alg: "SHA-256", Content: hex.EncodeToString(raw)}}
		}
	}
	return m
}
