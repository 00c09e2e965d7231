package config

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/phrase"
)

// AccountIDForm is the form of an account's id as one word.
const AccountIDForm = "app~realm~identity~namespace~name~type"

// ParseAccountID parses an account's id from one word. The identity and the namespace may be empty:
// cv~project:infra~~~pool~builds.
func ParseAccountID(word string) (account.ID, error) {
	id, ok := account.ParseWord(word)
	if !ok {
		return account.ID{}, fmt.Errorf("%s has %s; must be %s", clip(word), phrase.Plural(strings.Count(word, "~")+1, "part"), AccountIDForm)
	}
	return id, inFileWords(id.Validate())
}

// FormatAccountID formats an account's id as one word.
func FormatAccountID(id account.ID) string { return id.Word() }

// ConfigIDForm is the form of a policy config's id as one word.
const ConfigIDForm = "app~realm~version"

// ParseConfigID parses a policy config's id from one word: app~realm~version, or the version alone,
// in near's app and realm.
func ParseConfigID(word string, near account.ConfigID) (account.ConfigID, error) {
	id := near
	switch part := strings.Split(word, "~"); len(part) {
	case 1:
		id.Version = word
	case 3:
		id = account.ConfigID{App: part[0], Realm: part[1], Version: part[2]}
	default:
		return id, fmt.Errorf("%s has %s; must be %s, or the version alone", clip(word), phrase.Plural(len(part), "part"), ConfigIDForm)
	}
	return id, inFileWords(id.Validate())
}

// FormatConfigID formats a policy config's id as one word.
func FormatConfigID(id account.ConfigID) string {
	return strings.Join([]string{id.App, id.Realm, id.Version}, "~")
}

// PolicyForm is the form of a policy's name as one word.
const PolicyForm = "version~namespace~name~type"

// ParsePolicyRef parses a policy's name from one word: version~namespace~name~type in near's app
// and realm, where "/" may replace "~", or the full app~realm~version~namespace~name~type.
func ParsePolicyRef(word string, near account.ConfigID) (account.PolicyRef, error) {
	separator := "~"
	if !strings.Contains(word, separator) {
		separator = "/"
	}
	part := strings.Split(word, separator)
	ref := account.PolicyRef{Config: near}
	switch {
	case len(part) == 6 && separator == "~":
		ref.Config.App, ref.Config.Realm = part[0], part[1]
		part = part[2:]
	case len(part) != 4:
		return ref, fmt.Errorf("%s has %s; must be %s, or app~realm~ before it", clip(word), phrase.Plural(len(part), "part"), PolicyForm)
	}
	ref.Config.Version = part[0]
	ref.Key = account.PolicyKey{Namespace: part[1], Name: part[2], Resource: part[3]}
	return ref, inFileWords(ref.Validate())
}

// FormatPolicyRef formats a policy's name as one word. It includes the app and realm of the config
// unless they are near's.
func FormatPolicyRef(ref account.PolicyRef, near account.ConfigID) string {
	c, k := ref.Config, ref.Key
	word := strings.Join([]string{c.Version, k.Namespace, k.Name, k.Resource}, "~")
	if c.App == near.App && c.Realm == near.Realm {
		return word
	}
	return c.App + "~" + c.Realm + "~" + word
}

// fileWords maps field names that package account uses in ids to the names in files and flags.
var fileWords = strings.NewReplacer("policy_id.key.resource_type", "type of the policy", "config.app_id", "app", "config.realm", "realm", "config.version", "version", "key.resource_type", "type",
	"key.namespace", "namespace", "key.name", "name", "app_id", "app", "resource_type", "type")

// inFileWords replaces the field name at the start of an error with the name that files use.
func inFileWords(err error) error {
	if err == nil {
		return nil
	}
	field, detail, _ := strings.Cut(err.Error(), ": ")
	return fmt.Errorf("%s: %s", fileWords.Replace(field), detail)
}
