package archtest

// Owned is a third-party module that only some packages may import, tests
// included, even where the table says anything.
type Owned struct {
	Path   string   // the module; versions and subpackages included
	Owners []string // packages
	Why    string
}

// OwnedModules lists them.
var OwnedModules = []Owned{
	{raft, []string{"cluster/multiraft"}, whyRaft},
	{raftBolt, []string{"cluster/multiraft"}, whyRaft},
	{bbolt, []string{"cluster/multiraft", "internal/history/archive"}, whyBolt},
}

const whyRaft = "behind one shell, raft can be upgraded, guarded against its known bugs, and left out of the simulator"

const whyBolt = "a file that is damaged ends the process unless it is checked before: few should know how"

// Strangers are pairs of packages that never import each other, tests included.
var Strangers = [][2]string{{"leader", "aggregator"}}

// Exception excuses one file of a pure package from a part of purity. Every
// line says why; an exception whose file or import is gone fails the test.
type Exception struct {
	File    string   // path in the module
	Imports []string // packages that this file may import all the same
	Why     string
}

// Exceptions lists all of them.
var Exceptions = []Exception{
	{
		File: "aggregator/hotpath.go", Imports: []string{"sync", "sync/atomic"},
		Why: "the decision is one atomic subtraction from what the bucket holds, made by any number of callers at once; its lock is its own, for when it looks empty",
	},
	{
		File: "aggregator/handle.go", Imports: []string{"sync/atomic"},
		Why: "a handle is used by any number of callers at once, and remembers where its bucket is in one pointer",
	},
	{
		File: "internal/account/tree.go", Imports: []string{btree},
		Why: "a view of a million accounts is taken in constant time: trees that share what has not changed, with their locks off",
	},
	{
		File: "internal/account/wire.go", Imports: []string{protobuf + "/proto"},
		Why: "the log and snapshots hold protobuf messages, as everywhere; encoding is a function of the value",
	},
	{
		File: "internal/account/snapshot.go", Imports: []string{"bufio", "io"},
		Why: "a snapshot of a million accounts is streamed to whoever stores it; it is written from a view, and the state machine does not wait",
	},
	{
		File: "internal/account/restore.go", Imports: []string{"bufio", "io"},
		Why: "a snapshot is read as a stream, into a store that nobody uses yet",
	},
	{
		File: "aggregator/table.go", Imports: []string{"sync/atomic"},
		Why: "callers on all processors find their bucket here; a lock shared between keys would make them wait for each other",
	},
	{
		File: "aggregator/keys.go", Imports: []string{"hash/maphash", "sync", "sync/atomic"},
		Why: "the index of the keys: read without a lock, written with one; its hash has a seed, or strangers would choose keys that collide",
	},
	{
		File: "aggregator/cold.go", Imports: []string{"sync", "sync/atomic"},
		Why: "whoever asks for a frozen key thaws it: a lock for each part of the table, and a count that says whether there are any",
	},
	{
		File: "aggregator/tally.go", Imports: []string{"sync/atomic"},
		Why: "whoever opens a key anew adds what it had counted to the limit's sum: two additions, and no lock that all keys of a limit share",
	},
	{
		File: "aggregator/shut.go", Imports: []string{"sync/atomic"},
		Why: "a refusal that is repeated takes no lock, so that those who are refused do not keep others from being served",
	},
	{
		File: "aggregator/inline.go", Imports: []string{"sync/atomic", xsync},
		Why: "callers on all processors find their bucket here; a lock shared between keys would make them wait for each other",
	},
}

// pureStd is the part of the standard library that pure packages may use:
// nothing in it has state, reads the machine, or waits.
var pureStd = []string{
	"bytes", "cmp", "container/heap", "crypto/sha256", "encoding/ascii85", "encoding/binary", "encoding/hex",
	"errors", "fmt", "hash/crc32", "hash/fnv", "iter", "maps", "math", "math/bits", "slices", "sort", "strconv",
	"strings", "time", "unicode", "unicode/utf8",
}

// insteadOf says what to do without an import that pure packages may not use.
var insteadOf = map[string]string{
	"context":      "finish at once; whoever waits or is cancelled is the caller in cluster",
	"log":          "return what happened; the caller in cluster logs it",
	"log/slog":     "return what happened; the caller in cluster logs it",
	"math/rand":    "take a seed as an argument and derive numbers from it with integer arithmetic",
	"math/rand/v2": "take a seed as an argument and derive numbers from it with integer arithmetic",
	"os":           "take the data as an argument; config and cluster read files",
	"sync":         "let one goroutine of cluster own the value; on the hot path, see Exceptions in internal/archtest/exceptions.go",
	"sync/atomic":  "let one goroutine of cluster own the value; on the hot path, see Exceptions in internal/archtest/exceptions.go",
	"unsafe":       "write it in safe Go; measure before asking for an exception",
}

// clockNames are what package time has that reads the machine or waits.
var clockNames = []string{
	"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Local", "LoadLocation",
}

// seededRandom is what math/rand and math/rand/v2 have that does not draw
// from the process's own generator.
var seededRandom = []string{
	"New", "NewSource", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "Source64", "PCG", "ChaCha8", "Zipf",
}

// ownLogger is what package log has for those who must hand a *log.Logger to
// somebody else's interface; the rest of it is the process's logger.
var ownLogger = []string{"Logger", "New", "LstdFlags", "Lmsgprefix"}
