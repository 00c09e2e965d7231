package account

import "strings"

// separator stands between the parts of a key. No part may contain it, and it sorts
// before everything that a part may contain: keys sort as the parts do.
const separator = "\x00"

// key is the id as one string, in whose order accounts are kept.
func (id ID) key() string {
	return strings.Join([]string{id.App, id.Realm, id.Identity, id.Namespace, id.Name, id.Resource}, separator)
}

// parseKey is the inverse of key.
func parseKey(key string) (ID, bool) {
	parts := strings.Split(key, separator)
	if len(parts) != 6 {
		return ID{}, false
	}
	return ID{
		App: parts[0], Realm: parts[1], Identity: parts[2],
		Namespace: parts[3], Name: parts[4], Resource: parts[5],
	}, true
}

// Placement is what the range of an account is chosen by: all of its id, or, when
// the first section of its namespace begins with "@", app, realm and that section.
func (id ID) Placement() string {
	if strings.HasPrefix(id.Namespace, "@") {
		first, _, _ := strings.Cut(id.Namespace, "|")
		return strings.Join([]string{id.App, id.Realm, first}, "~")
	}
	return strings.Join([]string{id.App, id.Realm, id.Identity, id.Namespace, id.Name, id.Resource}, "~")
}
