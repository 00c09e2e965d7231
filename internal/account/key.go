package account

import (
	"cmp"
	"strings"
)

// separator stands between the parts of a key. No part may contain it, and it sorts
// before everything that a part may contain: keys sort as the parts do.
const separator = "\x00"

// parts of the id, in the order in which keys and words have them.
func (id ID) parts() []string {
	return []string{id.App, id.Realm, id.Identity, id.Namespace, id.Name, id.Resource}
}

// ofParts is the inverse of parts; false if there are not as many.
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

// Word is the id in one word: its six parts with "~" in between, which no valid part
// contains.
func (id ID) Word() string { return strings.Join(id.parts(), "~") }

// ParseWord is the inverse of Word; false if the word has not six parts. It does not
// validate them.
func ParseWord(word string) (ID, bool) { return ofParts(strings.Split(word, "~")) }

// key is the id as one string, in whose order accounts are kept.
func (id ID) key() string { return strings.Join(id.parts(), separator) }

// parseKey is the inverse of key.
func parseKey(key string) (ID, bool) { return ofParts(strings.Split(key, separator)) }

// Placement is what the range of an account is chosen by: all of its id, or, when
// the first section of its namespace begins with "@", app, realm and that section.
func (id ID) Placement() string {
	if strings.HasPrefix(id.Namespace, "@") {
		first, _, _ := strings.Cut(id.Namespace, "|")
		return strings.Join([]string{id.App, id.Realm, first}, "~")
	}
	return id.Word()
}
