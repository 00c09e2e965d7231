package doctest

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// asides are words of the vocabulary's column "not" that names may have all the same: why.
var asides = map[string]string{
	// Words that are kept for something else.
	"acquire":   "the call that takes places under a concurrency limit, until they are released",
	"authority": "a certificate authority",
	"balance":   "of durable accounts",
	"config":    "a policy config, and the file of another system or of a node's settings",
	"denied":    "of calls that may not be made; requests are refused",
	"dropped":   "of what is lost on purpose, such as lines of the log; requests are refused",
	"dry run":   "what a command would change; limits are tried in shadow",
	"error":     "what is wrong with a call, and how wrong a limit can be",
	"expired":   "of reservations and waits whose time is over",
	"heartbeat": "of Raft",
	"issue":     "of certificates",
	"log":       "of Raft, of a node, and of a web server",
	"mode":      "of TLS, and of a client in a scenario",
	"path":      "of a request, and of a file",
	"peer":      "the port and the address at which nodes speak to each other",
	"reserve":   "the call that sets tokens aside",
	"reserved":  "what that call has set aside",
	"revision":  "of the source, as git has it",
	"revoke":    "of tokens that say who one is",
	"strict":    "of a command that takes findings for faults",
	"sync":      "the setting of the sync interval",
	"ttl":       "how long a token or a certificate, or what is known of a request id, lasts",
	// Names of their own.
	"domain":                  "the label of Envoy's domains, which are its word",
	"offset":                  "of a refill, after midnight",
	"page_size":               "of a list that is asked for in pages, as in all APIs",
	"quorate_journal_pending": "slots whose counts no checkpoint holds yet",
	"server":                  "the flag of limits validate: ask the cluster too",
	"stale":                   "of an answer that may be behind",
}

// TestNames: what users write and read is in the words of docs/vocabulary.md: no command, flag,
// setting, field, metric, label or value has a word of its column "not".
func TestNames(t *testing.T) {
	names, err := Names(os.DirFS(root), apiFiles(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 900 {
		t.Errorf("%d names were seen; there are more", len(names))
	}
	words := vocabulary(t)
	used := map[string]bool{}
	for _, n := range names {
		parts := Parts(n.Name)
		for _, w := range words {
			for _, not := range w.Not {
				if !strings.Contains(parts, Parts(not)) || slices.ContainsFunc(words, func(o Word) bool { return slices.Contains(o.Words, not) }) {
					continue
				}
				if asides[not] != "" || asides[n.Name] != "" {
					used[not], used[n.Name] = true, true
					continue
				}
				t.Errorf("the %s %s: we say %q, not %q (docs/vocabulary.md)", n.What, n.Name, w.Words[0], not)
			}
		}
	}
	for word := range asides {
		if !used[word] {
			t.Errorf("no name needs the exception %q", word)
		}
	}
	t.Logf("%d names", len(names))
}

func TestParts(t *testing.T) {
	for name, want := range map[string]string{"max_keys": " max keys ", "MaxKeys": " max keys ", "WHY_OVER_LIMIT": " why over limit ", "--dry-run": " dry run ", "RLQS": " rlqs "} {
		if got := Parts(name); got != want {
			t.Errorf("the parts of %s are %q; want %q", name, got, want)
		}
	}
}
