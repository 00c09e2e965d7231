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
