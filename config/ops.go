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

// Ops holds the operations of a file.
type Ops struct {
	RequestID string        // empty if the file has none
	TTL       time.Duration // 0 if the file has none
	Ops       []account.Op
}

// ParseOps reads a file of operations on accounts. near supplies missing apps and realms of
// accounts and policies. Its error is a *FileError with every fault, in which source names the
// file.
func ParseOps(source string, data []byte, near account.ConfigID) (Ops, error) {
	f := opsFile{near: near}
	err := ReadDocuments(source, data, "ops:", 1, func(v Value) {
		v.Fields("ops: "+opsExample, []Field{
			{"version", "", func(v Value) { v.scalar(version()) }},
			{"request_id", "", func(v Value) { v.scalar(bounded(&f.out.RequestID, 1, account.MaxRequestID)) }},
			{"ttl", "", func(v Value) { v.scalar(ttl(&f.out.TTL)) }},
			{"ops", "ops: " + opsExample, func(v Value) { v.Items(account.MaxOps, opsExample, f.op) }},
		})
	})
	return f.out, err
}

// opsFile decodes a file of operations.
type opsFile struct {
	near account.ConfigID
	out  Ops
}

func (f *opsFile) op(v Value) {
	var one account.Op
	var policy *Value
	faults := v.Faults()
	g, ok := v.Fields(opExample, []Field{
		{"account", `account: "` + AccountIDForm + `"`, func(v Value) { f.account(v, &one.Account) }},
		{"policy", "", func(v Value) { policy = &v }},
		{"relative_to", "", func(v Value) { v.scalar(oneOf(&one.RelativeTo, RelativeToWord, relatives...)) }},
		{"delta", "", func(v Value) { v.scalar(whole(&one.Delta, -account.MostDelta, account.MostDelta)) }},
		{"options", "", func(v Value) { f.options(v, &one.Options) }},
	})
	if policy != nil {
		f.policyRef(*policy, &one)
	}
	if ok && !g.any("delta", "relative_to", "policy") {
		v.faultAtName("changes nothing; give a delta, relative_to, or a policy")
	}
	if !ok || v.Faults() > faults {
		return
	}
	if err := one.Validate(); err != nil {
		v.faultAtName("%s", inFileWords(err))
		return
	}
	f.out.Ops = append(f.out.Ops, one)
}

// account reads an id, either as one word or as a map.
func (f *opsFile) account(v Value, to *account.ID) {
	if !v.IsMap() {
		want := "an id, " + AccountIDForm + ", or a map of these"
		v.scalar(scalar{want: want, set: func(text string) (err error) {
			*to, err = ParseAccountID(text)
			return err
		}})
		return
	}
	*to = account.ID{App: f.near.App, Realm: f.near.Realm}
	faults := v.Faults()
	part := func(to *string) func(Value) {
		return func(v Value) { v.scalar(bounded(to, 0, account.MaxAtom)) }
	}
	v.Fields("{app: cv, realm: \"project:infra\", name: ann, type: builds}", []Field{
		{"app", "", part(&to.App)},
		{"realm", "", part(&to.Realm)},
		{"identity", "", part(&to.Identity)},
		{"namespace", "", part(&to.Namespace)},
		{"name", "name: ann", part(&to.Name)},
		{"type", "type: builds", part(&to.Resource)},
	})
	if err := to.Validate(); err != nil && v.Faults() == faults {
		v.faultAtName("%s", inFileWords(err))
	}
}

// policyRef reads the name of a policy. The app and realm default to the account's.
func (f *opsFile) policyRef(v Value, op *account.Op) {
	near := f.near
	if near.App == "" {
		near.App = op.Account.App
	}
	if near.Realm == "" {
		near.Realm = op.Account.Realm
	}
	var ref account.PolicyRef
	ok := v.scalar(scalar{want: "the name of a policy, " + PolicyForm + ", in quotes", set: func(text string) (err error) {
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

// OpOption returns the option with that name; its error lists the valid names.
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

func (f *opsFile) options(v Value, to *account.OpOptions) {
	v.Items(len(opOptions), "[ignore_policy_bounds]", func(item Value) {
		item.scalar(scalar{want: "an option of operations", set: func(text string) error {
			bit, err := OpOption(text)
			*to |= bit
			return err
		}})
	})
}

var relatives = []account.RelativeTo{account.Balance, account.Zero, account.Default, account.Limit}

// RelativeToWord returns the word for a value of RelativeTo.
func RelativeToWord(r account.RelativeTo) string {
	words := []string{"current_balance", "zero", "default", "limit"}
	if int(r) < len(words) {
		return words[r]
	}
	return strconv.Itoa(int(r))
}

// ParseRelativeTo parses the word for a value of RelativeTo; its error lists the valid words.
func ParseRelativeTo(word string) (r account.RelativeTo, err error) {
	err = oneOf(&r, RelativeToWord, relatives...).set(strings.ReplaceAll(word, "-", "_"))
	return r, err
}

// ttl reads the lifetime of a request id.
func ttl(to *time.Duration) scalar {
	return parsed(to, "a duration with its unit, 1s to 31d", func(text string) (time.Duration, bool) {
		d, err := parsePause(text)
		return d, err == nil && d >= time.Second && d <= account.MaxTTL
	})
}
