package peerproto

// maxFrameEntries bounds the entries of one frame of reports.
const maxFrameEntries = 16384

// InFrames splits list and calls send with one part after the other. A part has at most
// maxFrameEntries entries, unless a single message has more.
func InFrames[T any](list []T, entriesOf func(T) int, send func([]T)) {
	entries, first := 0, 0
	for i, m := range list {
		if entries+entriesOf(m) > maxFrameEntries {
			send(list[first:i])
			entries, first = 0, i
		}
		entries += entriesOf(m)
	}
	send(list[first:])
}
