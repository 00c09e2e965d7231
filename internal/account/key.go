package account

import (
	"cmp"
	"strings"
)

// separator stands between the parts of a key. No part may contain it, and it sorts before every
// character of a part, so keys sort as their parts do.
const separator = "\x00"

// parts returns the parts of the id, in the order of keys and words.
func (id ID) parts() []string {
	return []string{id.App, id.Realm, id.Identity, id.Namespace, id.Name, id.Resource}
}

// ofParts is the inverse of parts. It reports false if the number of parts is wrong.
func ofParts(p []string) (ID, bool) {
	if len(p) != 6 {
		return ID{}, false
	}
	return ID{App: p[0], Realm: p[1], Identity: p[2], Namespace: p[3], Name: p[4], Resource: p[5]}, true
}

// Compare orders ids by their parts, from the left: negative if id comes before other.
func (id ID) Compare(other ID) int {
	return cmp.Or(
		cmp.Compare(id.App, other.App), cmp.Compare(id.Realm, other.Realm), cmp.Compare(id.Identity, other.Identity),
		cmp.Compare(id.Namespace, other.Namespace), cmp.Compare(id.Name, other.Name), cmp.Compare(id.Resource, other.Resource),
	)
}

// Compare orders keys by their parts, from the left: negative if k comes before other.
func (k PolicyKey) Compare(other PolicyKey) int {
	return cmp.Or(cmp.Compare(k.Namespace, other.Namespace), cmp.Compare(k.Name, other.Name), cmp.Compare(k.Resource, other.Resource))
}

// Word returns the id as one word: its six parts joined by "~", which no valid part contains.
func (id ID) Word() string { return strings.Join(id.parts(), "~") }

// ParseWord is the inverse of Word. It reports false unless the word has six parts, and does not
// validate them.
func ParseWord(word string) (ID, bool) { return ofParts(strings.Split(word, "~")) }

// key returns the id as one string, whose order is the order of accounts in the store.
func (id ID) key() string { return strings.Join(id.parts(), separator) }

// parseKey is the inverse of key.
func parseKey(key string) (ID, bool) { return ofParts(strings.Split(key, separator)) }

// Placement returns the string that chooses the range of an account: the whole id or, if the first
// section of the namespace begins with "@", app, realm and that section.
func (id ID) Placement() string {
	if strings.HasPrefix(id.Namespace, "@") {
		first, _, _ := strings.Cut(id.Namespace, "|")
		return strings.Join([]string{id.App, id.Realm, first}, "~")
	}
	return id.Word()
}
