package build

import (
	"debug/buildinfo"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/internal/cli/render"
)

// Version of the software; releases set it with -ldflags "-X github.com/quorate/quorate/internal/cli/build.Version=...".
var Version = "0.1.0-dev"

// Info is the build information of a binary. Unknown texts are "unknown", and Modified is false.
type Info struct {
	Version      string `json:"version"`
	Revision     string `json:"revision"`      // of the source
	RevisionTime string `json:"revision_time"` // when it was committed, RFC 3339
	Modified     bool   `json:"modified"`      // whether the source had uncommitted changes
	GoVersion    string `json:"goversion"`
	Platform     string `json:"platform"` // such as linux/amd64
	Static       bool   `json:"static"`   // without C libraries
}

// buildOf extracts what the toolchain recorded in a binary.
func buildOf(info *debug.BuildInfo) Info {
	said := map[string]string{"vcs.revision": "unknown", "vcs.time": "unknown"}
	for _, s := range info.Settings {
		said[s.Key] = s.Value
	}
	return Info{
		Version: Version, Revision: said["vcs.revision"], RevisionTime: said["vcs.time"], Modified: said["vcs.modified"] == "true",
		GoVersion: info.GoVersion, Platform: said["GOOS"] + "/" + said["GOARCH"], Static: said["CGO_ENABLED"] == "0",
	}
}

// readBuild reads the build information of a file, or of this process.
func readBuild(file string) (*debug.BuildInfo, error) {
	if file != "" {
		return buildinfo.ReadFile(file)
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil, fmt.Errorf("this binary was built without modules and has no build information")
	}
	return info, nil
}

// NewVersionCommand returns "quorate version".
func NewVersionCommand() *cobra.Command {
	var output render.Output
	var of string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and what it was built from",
		Long: `Print the version, and what it was built from.

-o cyclonedx prints a bill of materials: every module in the binary, with its
version and the checksum of its source.`,
		Example: `  quorate version -o json
  quorate version -o cyclonedx > quorate.cdx.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, err := readBuild(of)
			if err != nil {
				return err
			}
			b := buildOf(info)
			if output.Format == "cyclonedx" {
				return render.NewPrinter(render.FormatJSON, false, cmd.OutOrStdout()).Print(materials(info, b.Version), nil)
			}
			changed := ""
			if b.Modified {
				changed = ", with changes"
			}
			return output.Printf(cmd, b, "quorate %s (%s%s, %s, %s)", b.Version, b.Revision, changed, b.GoVersion, strings.TrimPrefix(b.Platform, "/"))
		},
	}
	output.AddFlags(cmd, "text", "json", "cyclonedx")
	cmd.Flags().StringVar(&of, "of", "", "another binary `file` to describe, also for another system")
	return cmd
}
