package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/cli"
	"github.com/quorate/quorate/internal/cli/exit"
)

// TestMistyped checks that the error for a mistyped word names the word and the correction.
func TestMistyped(t *testing.T) {
	for line, want := range map[string]string{
		"allow api/x":                             `the command must be "quorate allow NAMESPACE/LIMIT KEY"; got 1 argument`,
		"allow":                                   "got no arguments",
		"cluster drain n1 n2 n3":                  `"quorate cluster drain NODE"; got 3 arguments`,
		"status --rnages":                         "unknown flag: --rnages; did you mean --ranges?",
		"status --paint":                          "unknown flag: --paint; quorate status has --addr, --base-port,",
		"load --paint":                            "unknown flag: --paint\n",
		"init --ranges many":                      `--ranges "many": must be a whole number`,
		"allow a/b c --max-wait 5":                `--max-wait "5": must be a duration with its unit`,
		"join-token create --uses -1":             `--uses "-1": must be a whole number, 0 or more`,
		"load --limit a/b --duration forever":     `--duration "forever": must be a duration`,
		"status --check=perhaps":                  `--check "perhaps": must be true or false`,
		"limits lnt --base-port 27400":            `limits: unknown command "lnt"; did you mean`,
		"keys why --base-port 27400 web/a k":      `keys: unknown command "why"; must be get, `,
		"limits --base-port 27400":                "limits: give a command: get, apply",
		"lint x.yaml --strict":                    `unknown command "lint"; did you mean "quorate limits validate"?`,
		"apply limits.yaml --yes":                 `did you mean "quorate accounts apply" or "quorate limits apply" or "quorate overrides apply"?`,
		"limits top":                              `limits: unknown command "top"; did you mean "quorate keys top" or "quorate top"?`,
		"limits whatif":                           `limits: unknown command "whatif"; did you mean "quorate plan what-if"?`,
		"rates web/x":                             `unknown argument "web/x"; did you mean "quorate rates --limit web/x"?`,
		"keys web/x":                              `keys: unknown command "web/x"; did you mean "quorate keys explain web/x KEY" or "quorate keys get web/x KEY" or`,
		"plan web/x":                              `unknown argument "web/x"; did you mean "quorate plan forecast web/x" or "quorate plan headroom web/x" or`,
		"overrides web/x":                         `or "quorate overrides get web/x KEY" or`,
		"plan headrom":                            `unknown command "headrom"; did you mean "quorate plan headroom"?`,
		"plan x":                                  `quorate plan: unknown command "x"; must be forecast, headroom, `,
		"limits history 5":                        `unknown argument "5"; the command must be "quorate limits history"`,
		"whoami --paint":                          "unknown flag: --paint; quorate whoami has --addr, --base-port,",
		"status --base-port 99999999999999999999": `--base-port "99999999999999999999": must be a whole number`,
	} {
		var out bytes.Buffer
		if code := cli.Run(t.Context(), strings.Fields(line), &out, &out); code != exit.Usage {
			t.Errorf("%s: exit code %d", line, code)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: says %q; want %q in it", line, out.String(), want)
		}
	}
}
