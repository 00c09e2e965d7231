package config

import (
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/account"
)

const (
	opExample  = `{account: "cv~project:infra~user:ann~ci~ann~builds", policy: "$hash~ci~default~builds", delta: -1}`
	opsExample = "[" + opExample + "]"
)

// Ops is a file of operations.
type Ops struct {
	RequestID string        // empty when not said
	TTL       time.Duration // 0 when not said
	Ops       []account.Op
}

// ParseOps reads a file of operations on accounts. Accounts and policies that name
// no app or realm are of near's. Its error is a *FileError with every fault; source
// is what that calls the file.
func ParseOps(source string, data []byte, near account.ConfigID) (Ops, error) {
	r := &report{source: source, data: data}
	f := opsFile{decoder: decoder{r}, near: near}
	if root := r.root("ops:"); root != nil {
		f.object(place{value: root}, "ops: "+opsExample, []field{
			{"version", "", func(p place) { f.scalar(p, version()) }},
			{"request_id", "", func(p place) { f.scalar(p, bounded(&f.out.RequestID, 1, account.MaxRequestID)) }},
			{"ttl", "", func(p place) { f.scalar(p, ttl(&f.out.TTL)) }},
			{"ops", "ops: " + opsExample, func(p place) { f.list(p, account.MaxOps, opsExample, f.op) }},
		})
	}
	return f.out, r.err()
}

// opsFile decodes a file of operations.
type opsFile struct {
	decoder
	near account.ConfigID
	out  Ops
}

func (f *opsFile) op(p place) {
	var one account.Op
	var policy *place
	faults := len(f.faults)
	g, ok := f.fieldsOf(p, opExample, []field{
		{"account", `account: "` + AccountIDForm + `"`, func(p place) { f.account(p, &one.Account) }},
		{"policy", "", func(p place) { policy = &p }},
		{"relative_to", "", func(p place) { f.scalar(p, oneOf(&one.RelativeTo, RelativeToWord, relatives...)) }},
		{"delta", "", func(p place) { f.scalar(p, whole(&one.Delta, -account.MostDelta, account.MostDelta)) }},
		{"options", "", func(p place) { f.options(p, &one.Options) }},
	})
	if policy != nil {
		f.policyRef(*policy, &one)
	}
	if ok && !g.any("delta", "relative_to", "policy") {
		f.node(p.where(), p.path, "changes nothing; give a delta, relative_to, or a policy")
	}
	if !ok || len(f.faults) > faults {
		return
	}
	if err := one.Validate(); err != nil {
		f.node(p.where(), p.path, "%s", inFileWords(err))
		return
	}
	f.out.Ops = append(f.out.Ops, one)
}

// account reads an id in one word, or as a map.
func (f *opsFile) account(p place, to *account.ID) {
	if !isMap(p) {
		want := "an id, " + AccountIDForm + ", or a map of these"
		f.scalar(p, scalar{want: want, set: func(text string) (err error) {
			*to, err = ParseAccountID(text)
			return err
		}})
		return
	}
	*to = account.ID{App: f.near.App, Realm: f.near.Realm}
	faults := len(f.faults)
	part := func(to *string) func(place) {
		return func(p place) { f.scalar(p, bounded(to, 0, account.MaxAtom)) }
	}
	f.object(p, "{app: cv, realm: \"project:infra\", name: ann, type: builds}", []field{
		{"app", "", part(&to.App)},
		{"realm", "", part(&to.Realm)},
		{"identity", "", part(&to.Identity)},
		{"namespace", "", part(&to.Namespace)},
		{"name", "name: ann", part(&to.Name)},
		{"type", "type: builds", part(&to.Resource)},
	})
	if err := to.Validate(); err != nil && len(f.faults) == faults {
		f.node(p.where(), p.path, "%s", inFileWords(err))
	}
}

// policyRef reads a policy, which is of the account's app and realm if those are not said.
func (f *opsFile) policyRef(p place, op *account.Op) {
	near := f.near
	if near.App == "" {
		near.App = op.Account.App
	}
	if near.Realm == "" {
		near.Realm = op.Account.Realm
	}
	var ref account.PolicyRef
	ok := f.scalar(p, scalar{want: "the name of a policy, " + PolicyForm + ", in quotes", set: func(text string) (err error) {
		ref, err = ParsePolicyRef(text, near)
		return err
	}})
	if ok {
		op.Policy = &ref
	}
}

var opOptions = []struct {
	word string
	bit  account.OpOptions
}{
	{"ignore_policy_bounds", account.IgnorePolicyBounds},
	{"do_not_cap_proposed", account.DoNotCapProposed},
	{"with_policy_limit_delta", account.WithPolicyLimitDelta},
}

// OpOption returns the option of a word; its error says which words there are.
func OpOption(word string) (account.OpOptions, error) {
	var bit account.OpOptions
	var words []account.OpOptions
	for _, o := range opOptions {
		words = append(words, o.bit)
	}
	err := oneOf(&bit, optionWord, words...).set(word)
	return bit, err
}

func optionWord(bit account.OpOptions) string {
	for _, o := range opOptions {
		if o.bit == bit {
			return o.word
		}
	}
	return strconv.FormatUint(uint64(bit), 10)
}

func (f *opsFile) options(p place, to *account.OpOptions) {
	f.list(p, len(opOptions), "[ignore_policy_bounds]", func(item place) {
		f.scalar(item, scalar{want: "an option of operations", set: func(text string) error {
			bit, err := OpOption(text)
			*to |= bit
			return err
		}})
	})
}

var relatives = []account.RelativeTo{account.Balance, account.Zero, account.Default, account.Limit}

// RelativeToWord is the word of what a delta is added to.
func RelativeToWord(r account.RelativeTo) string {
	words := []string{"current_balance", "zero", "default", "limit"}
	if int(r) < len(words) {
		return words[r]
	}
	return strconv.Itoa(int(r))
}

// ParseRelativeTo reads such a word; its error says which there are.
func ParseRelativeTo(word string) (r account.RelativeTo, err error) {
	err = oneOf(&r, RelativeToWord, relatives...).set(strings.ReplaceAll(word, "-", "_"))
	return r, err
}

// ttl reads how long a request id is remembered.
func ttl(to *time.Duration) scalar {
	want := "a duration with its unit, 1s to 31d"
	return scalar{want: want, set: func(text string) error {
		d, err := parsePause(text)
		if err != nil || d < time.Second || d > account.MaxTTL {
			return wrong(text, want)
		}
		*to = d
		return nil
	}}
}
