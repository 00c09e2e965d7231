package backup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/quorate/quorate/cluster/raftgroup"
)

var when = time.Date(2026, 11, 22, 1, 2, 3, 4, time.UTC)

func head(ranges int) Head {
	return Head{Cluster: "test", Software: "v1", Level: 1, At: when, Ranges: ranges}
}

// contents returns the snapshots of groups.
func contents(sizes ...int) [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	var out [][]byte
	for _, n := range sizes {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		out = append(out, b)
	}
	return out
}

// written returns a backup of these groups.
func written(t testing.TB, groups [][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, head(len(groups)-1))
	if err != nil {
		t.Fatal(err)
	}
	for i, data := range groups {
		if err := w.Begin(raftgroup.GroupName(uint32(i)), uint64(10+i), 3); err != nil {
			t.Fatal(err)
		}
		for len(data) > 0 { // write uneven parts
			n := min(len(data), 7001)
			if _, err := w.Write(data[:n]); err != nil {
				t.Fatal(err)
			}
			data = data[n:]
		}
		if err := w.End(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// readAll reads a backup to its end.
func readAll(r io.Reader) (groups [][]byte, m *Manifest, err error) {
	b, err := NewReader(r)
	if err != nil {
		return nil, nil, err
	}
	for {
		if _, err := b.Next(); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return groups, b.Manifest(), err
		}
		data, err := io.ReadAll(b)
		if err != nil {
			return nil, nil, err
		}
		groups = append(groups, data)
	}
}

func TestRoundTrip(t *testing.T) {
	for _, sizes := range [][]int{{0, 0}, {1, 0, 5}, {100, MaxPiece, MaxPiece + 1, 3 * MaxPiece, 0}} {
		want := contents(sizes...)
		data := written(t, want)
		for name, r := range map[string]io.Reader{"at once": bytes.NewReader(data), "byte by byte": iotest.OneByteReader(bytes.NewReader(data))} {
			got, m, err := readAll(r)
			if err != nil {
				t.Fatalf("%v, %s: %v", sizes, name, err)
			}
			if len(got) != len(want) || m.Cluster != "test" || m.Format != Format || !m.At.Equal(when) {
				t.Fatalf("%v, %s: %d groups, %+v", sizes, name, len(got), m)
			}
			for i := range want {
				if g := m.Groups[i]; !bytes.Equal(got[i], want[i]) || g.Size != int64(len(want[i])) || g.Name != raftgroup.GroupName(uint32(i)) || g.Index != uint64(10+i) || g.Term != 3 {
					t.Errorf("%v, %s: group %d: %+v", sizes, name, i, g)
				}
			}
		}
	}
}

// TestSkip checks that groups that are skipped are verified all the same.
func TestSkip(t *testing.T) {
	data := written(t, contents(10, 2*MaxPiece, 10))
	b, err := NewReader(bytes.NewReader(data))
	for err == nil {
		_, err = b.Next()
	}
	if !errors.Is(err, io.EOF) || !b.Whole() || len(b.Manifest().Groups) != 3 || b.Offset() != int64(len(data)) {
		t.Errorf("%v, whole %v, %d of %d bytes", err, b.Whole(), b.Offset(), len(data))
	}
}

// TestEveryByte checks that changing any byte, or cutting off the end anywhere, is detected.
func TestEveryByte(t *testing.T) {
	data := written(t, contents(40, 300, 0))
	for i := range data {
		for _, flip := range []byte{1, 0x80, 0xff} {
			damaged := bytes.Clone(data)
			damaged[i] ^= flip
			refused(t, damaged, "")
		}
		refused(t, data[:i], "")
	}
	if _, _, err := readAll(bytes.NewReader(data[:len(data)-1])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut off: %v", err)
	}
}

// refused returns the error of a file that is not a backup.
func refused(t testing.TB, data []byte, words string) {
	t.Helper()
	_, _, err := readAll(bytes.NewReader(data))
	if bad := (*FormatError)(nil); !errors.As(err, &bad) || bad.Offset < 0 || bad.Offset > int64(len(data)) {
		t.Fatalf("%v (%T)", err, err)
	}
	if !strings.Contains(err.Error(), words) {
		t.Errorf("%v; want %q", err, words)
	}
}

// split returns the blocks of a file, which follow its magic.
func split(data []byte) (blocks [][]byte) {
	for data = data[len(Magic):]; len(data) > 0; {
		n := blockHead + int(binary.BigEndian.Uint32(data[1:])) + blockTail
		blocks, data = append(blocks, data[:n]), data[n:]
	}
	return blocks
}

// joined joins blocks, with checksums for their new numbers, as a forger would.
func joined(blocks [][]byte, forged bool) []byte {
	out := []byte(Magic)
	for i, b := range blocks {
		if forged {
			b = bytes.Clone(b)
			end := len(b) - blockTail
			binary.BigEndian.PutUint32(b[end:], checksum(uint64(i), b[:blockHead], b[blockHead:end]))
		}
		out = append(out, b...)
	}
	return out
}

func cut(blocks [][]byte, from, to int) [][]byte {
	return append(append([][]byte{}, blocks[:from]...), blocks[to:]...)
}

func swapped(blocks [][]byte, i, j int) [][]byte {
	out := append([][]byte{}, blocks...)
	out[i], out[j] = out[j], out[i]
	return out
}

func TestForeign(t *testing.T) {
	good := split(written(t, contents(5, 6, 7)))    // H GDE GDE GDE M S
	other := split(written(t, contents(0, 99, 12))) // H GE GDE GDE M S
	if len(good) != 12 || len(other) != 11 {
		t.Fatal(len(good), len(other))
	}
	newer := head(1)
	newer.Format = Format + 1
	for name, tt := range map[string]struct {
		blocks [][]byte
		words  string
	}{
		"a group is missing":         {cut(good, 4, 7), `got group "range-001", want "range-000"`},
		"the last group is missing":  {cut(good, 7, 10), "got the manifest, want group range-001"},
		"a group twice":              {append(append([][]byte{}, good[:7]...), good[4:]...), `got group "range-000", want "range-001"`},
		"a group too many":           {append(append([][]byte{}, good[:10]...), good[7:]...), "got the beginning of a group, want the manifest"},
		"pieces of others":           {swapped(good, 2, 5), "; must be"},
		"a piece is missing":         {cut(good, 2, 3), "the snapshot has 0 bytes"},
		"the end is missing":         {cut(good, 3, 4), "in meta: got the beginning of a group, want a piece"},
		"no manifest":                {cut(good, 10, 11), "got the seal, want the manifest"},
		"no seal":                    {good[:11], "truncated"},
		"the seal twice":             {append(append([][]byte{}, good...), good[11]), "after the seal"},
		"no head":                    {good[1:], "got the beginning of a group, want the head"},
		"a whole group of another":   {append(append(append([][]byte{}, good[:4]...), other[3:6]...), good[7:]...), "several backups"},
		"the manifest of another":    {append(append(append([][]byte{}, good[:10]...), other[9]), good[11]), "several backups"},
		"the head of another format": {[][]byte{blockOf(t, &newer)}, "format 2; this version of quorate reads format 1"},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, joined(tt.blocks, true), tt.words)
			if name != "no seal" && name != "the head of another format" {
				refused(t, joined(tt.blocks, false), "")
			}
		})
	}
	refused(t, []byte("\x1f\x8b tar.gz of something"), "not a Quorate backup")
	refused(t, nil, "not a Quorate backup")
}

// blockOf returns the block of a head, even an invalid one.
func blockOf(t *testing.T, h *Head) []byte {
	var out bytes.Buffer
	w := &Writer{w: &out, all: discardHash{}}
	w.json(kindHead, h)
	if w.err != nil {
		t.Fatal(w.err)
	}
	return out.Bytes()
}

type discardHash struct{}

func (discardHash) Write(p []byte) (int, error) { return len(p), nil }
func (discardHash) Sum([]byte) []byte           { return nil }
func (discardHash) Reset()                      {}
func (discardHash) Size() int                   { return 0 }
func (discardHash) BlockSize() int              { return 1 }

func TestWriterOrder(t *testing.T) {
	for name, misuse := range map[string]func(w *Writer) error{
		"another group first": func(w *Writer) error { return w.Begin("range-000", 1, 1) },
		"a group in a group":  func(w *Writer) error { _ = w.Begin("meta", 1, 1); return w.Begin("range-000", 1, 1) },
		"data outside":        func(w *Writer) error { _, err := w.Write([]byte("x")); return err },
		"end of nothing":      func(w *Writer) error { return w.End() },
		"closed too early":    func(w *Writer) error { return w.Close() },
		"too many groups": func(w *Writer) error {
			for i := range 2 {
				_ = w.Begin(raftgroup.GroupName(uint32(i)), 1, 1)
				_ = w.End()
			}
			return w.Begin(raftgroup.GroupName(uint32(2)), 1, 1)
		},
	} {
		var out bytes.Buffer
		w, err := NewWriter(&out, head(1))
		if err != nil {
			t.Fatal(err)
		}
		if misuse(w) == nil {
			t.Errorf("%s: no error", name)
		}
		if w.Close() == nil {
			t.Errorf("%s: closed as whole", name)
		}
	}
	for _, h := range []Head{{Cluster: "c"}, {Cluster: "c", Ranges: MaxRanges + 1}, {Ranges: 1}, {Cluster: "c", Ranges: 1, Level: -1}} {
		if _, err := NewWriter(io.Discard, h); err == nil {
			t.Errorf("%+v is taken", h)
		}
	}
}

// TestDiskFull checks that after an error of the underlying writer nothing counts as written.
func TestDiskFull(t *testing.T) {
	full := errors.New("no space left on device")
	for room := range len(written(t, contents(5, 6))) {
		w, err := NewWriter(&small{room: room, err: full}, head(1))
		for i := range 2 {
			if err == nil {
				err = w.Begin(raftgroup.GroupName(uint32(i)), uint64(10+i), 3)
			}
			if err == nil {
				_, err = w.Write(make([]byte, 5+i))
			}
			if err == nil {
				err = w.End()
			}
		}
		if err == nil {
			err = w.Close()
		}
		if !errors.Is(err, full) {
			t.Fatalf("room for %d bytes: %v", room, err)
		}
	}
}

type small struct {
	room int
	err  error
}

func (s *small) Write(p []byte) (int, error) {
	if len(p) > s.room {
		return s.room, s.err
	}
	s.room -= len(p)
	return len(p), nil
}

// TestReadError checks that a read error of the disk is not reported as damage of the file.
func TestReadError(t *testing.T) {
	broken := errors.New("input/output error")
	data := written(t, contents(5, 6))
	for n := range data {
		_, _, err := readAll(io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
}

// FuzzReader checks that, whatever the bytes, the reader ends with an error that has a place, or
// has read exactly what the writer writes.
func FuzzReader(f *testing.F) {
	good := written(f, contents(5, 600, 0))
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte(Magic))
	blocks := split(good)
	f.Add(joined(swapped(blocks, 2, 5), true))
	f.Add(joined(cut(blocks, 1, 4), true))
	f.Fuzz(func(t *testing.T, data []byte) {
		again(t, data)
		if bytes.HasPrefix(data, []byte(Magic)) && len(data) < 1<<16 { // fix the checksums, to get further
			again(t, mended(data))
		}
	})
}

// mended returns data with correct checksums for its blocks.
func mended(data []byte) []byte {
	out := bytes.Clone(data)
	for at, n := len(Magic), uint64(0); at+blockHead+blockTail <= len(out); n++ {
		end := at + blockHead + int(binary.BigEndian.Uint32(out[at+1:]))
		if end+blockTail > len(out) {
			break
		}
		binary.BigEndian.PutUint32(out[end:], checksum(n, out[at:at+blockHead], out[at+blockHead:end]))
		at = end + blockTail
	}
	return out
}

func again(t *testing.T, data []byte) {
	groups, m, err := readAll(bytes.NewReader(data))
	if err != nil {
		if bad := (*FormatError)(nil); !errors.As(err, &bad) {
			t.Fatalf("%v (%T)", err, err)
		}
		return
	}
	var out bytes.Buffer
	w, err := NewWriter(&out, m.Head)
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range groups {
		_ = w.Begin(raftgroup.GroupName(uint32(i)), m.Groups[i].Index, m.Groups[i].Term)
		_, _ = w.Write(g)
		_ = w.End()
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got, _, err := readAll(&out); err != nil || len(got) != len(groups) {
		t.Fatalf("%d groups, %v; want %d", len(got), err, len(groups))
	}
}
