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
		"limits lnt --base-port 27400":            `limits: unknown command "lnt"; did you mean lint?`,
		"limits lsit":                             `limits: unknown command "lsit"; did you mean list?`,
		"keys why --base-port 27400 web/a k":      `keys: unknown command "why"; must be get, `,
		"limits --base-port 27400":                "limits: give a command: get, apply",
		"lint x.yaml --strict":                    `unknown command "lint"; did you mean "quorate limits validate"?`,
		"apply limits.yaml --yes":                 `did you mean "quorate accounts apply" or "quorate limits apply" or "quorate overrides apply"?`,
		"limits top":                              `limits: unknown command "top"; did you mean "quorate keys top" or "quorate top"?`,
		"limits whatif":                           `limits: unknown command "whatif"; did you mean "quorate plan what-if"?`,
		"rates web/x":                             `unknown argument "web/x"; did you mean "quorate rates --limit web/x"?`,
		"keys web/x":                              `keys: unknown command "web/x"; did you mean "quorate keys explain web/x KEY" or "quorate keys get web/x KEY" or`,
		"plan web/x":                              `plan: unknown command "web/x"; did you mean "quorate plan forecast web/x" or "quorate plan headroom web/x" or`,
		"overrides web/x":                         `or "quorate overrides get web/x KEY" or`,
		"plan headrom":                            `plan: unknown command "headrom"; did you mean headroom?`,
		"plan x":                                  `plan: unknown command "x"; must be headroom, what-if, `,
		"alow web/x y":                            `quorate: unknown command "alow"; did you mean "quorate allow"?`,
		"foo":                                     "quorate: unknown command \"foo\"\nRun",
		"help alow":                               `unknown command "alow"; did you mean "quorate allow"?`,
		"completion tcsh":                         `completion: unknown command "tcsh"; must be bash, `,
		"context lst":                             `context: unknown command "lst"; did you mean list?`,
		"context set x --addr n1":                 `--addr "n1": must be host:port`,
		"allow web/x k\xff":                       `key: "k\xff": must be UTF-8`,
		"allow web/x k --addr n1:99999":           `--addr "n1:99999": must be host:port`,
		"allow web/x k --tls-dir absent":          "--tls-dir absent: no such directory",
		"init --data new --ranges 0":              "--ranges: is \"0\"; must be a whole number from 1 to 256\nRun",
		"init --data new --host a:1":              `--host: is "a:1"; must be a host without a port`,
		"backup verify testdata":                  "quorate: read testdata: ",
		"serve --config absent":                   "quorate: open absent: ",
		"plan suggest web/x --refuse 2":           `--refuse "2": must be a part from 0`,
		"plan what-if web/x --kind calendar":      `--kind "calendar": must be one of bucket, fixed, sliding, periodic`,
		"history --key k":                         "--key: needs a LIMIT",
		"history web --step 1m":                   "--step: needs a LIMIT",
		"history web/x --top 3":                   "--top: is for a list of limits",
		"history --top 0":                         "--top 0: must be 1 to 1000",
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
