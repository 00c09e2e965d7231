package peerproto

// maxFrameEntries bounds one frame of reports.
const maxFrameEntries = 16384

// InFrames calls send with one part of the list after the other, each of at most
// maxFrameEntries entries if no message alone has more.
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
