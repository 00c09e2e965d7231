package audit

// Newest reads one chain as NewestOfAll reads both.
func Newest(path string, from Place, most int, match func(*Entry) bool) ([]Entry, *Place, error) {
	found, next, err := newest(path, from, &Query{Most: most, Match: match})
	out := make([]Entry, len(found))
	for i := range found {
		out[i] = found[i].Entry
	}
	return out, next, err
}

// NewestOfAll returns what Find finds, without the cursor of each entry.
func NewestOfAll(path string, from Cursor, most int, match func(*Entry) bool) (out []Entry, next *Cursor, err error) {
	found, next, err := Find(path, Query{From: from, Most: most, Match: match})
	for i := range found {
		out = append(out, found[i].Entry)
	}
	return out, next, err
}
