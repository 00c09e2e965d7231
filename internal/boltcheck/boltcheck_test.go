package boltcheck

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"go.etcd.io/bbolt"
)

// fill makes a file with buckets of different depths, and returns how many keys they hold.
func fill(t *testing.T, path string) (keys int) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for n, size := range []int{0, 3, 2000} {
		err := db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucket(fmt.Appendf(nil, "bucket%d", n))
			if err != nil {
				return err
			}
			for k := range size {
				if err := b.Put(binary.BigEndian.AppendUint64(nil, uint64(k)), make([]byte, rng.IntN(300))); err != nil {
					return err
				}
				keys++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	want, got := fill(t, path), map[string]int{}
	err := Read(path, func(bucket, _ []byte) error { got[string(bucket)]++; return nil })
	if err != nil || got["bucket1"] != 3 || got["bucket1"]+got["bucket2"] != want || len(got) != 2 {
		t.Errorf("%v, %v; want %d keys", got, err, want)
	}
}

// unreadable is a file of which the sector at an offset cannot be read.
type unreadable struct {
	*os.File
	at int64
}

func (u unreadable) ReadAt(b []byte, at int64) (int, error) {
	if at <= u.at && u.at < at+int64(len(b)) {
		return 0, &fs.PathError{Op: "read", Path: u.Name(), Err: syscall.EIO}
	}
	return u.File.ReadAt(b, at)
}

// TestUnreadableMeta checks that a meta page that cannot be read is an I/O error. The other meta page
// is that of another transaction.
func TestUnreadableMeta(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	fill(t, path)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{0, int64(os.Getpagesize())} {
		if m, err := (&boltCheck{file: unreadable{f, at}, size: info.Size()}).newestMeta(); !errors.Is(err, syscall.EIO) {
			t.Errorf("byte %d cannot be read: transaction %d, %v; want an I/O error", at, m.txid, err)
		}
	}
}

// TestRollBack checks that a transaction can be taken back once, and no other.
func TestRollBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	fill(t, path)
	newest, err := Transaction(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, good := range []uint64{newest + 1, newest - 2} {
		if err := RollBack(path, good); err == nil {
			t.Errorf("back from %d to %d", newest, good)
		}
	}
	for _, good := range []uint64{newest, newest - 1, newest - 1} {
		if err := RollBack(path, good); err != nil {
			t.Fatal(err)
		}
		if now, err := Transaction(path); err != nil || now != good {
			t.Errorf("transaction %d, %v; want %d", now, err, good)
		}
		if err := Check(path); err != nil {
			t.Error(err)
		}
	}
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.View(func(tx *bbolt.Tx) error {
		if tx.Bucket([]byte("bucket2")) != nil || tx.Bucket([]byte("bucket1")) == nil {
			return fmt.Errorf("not the state of transaction %d", newest-1)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestRandomDamageNeverPanics changes random bytes of a file and truncates it at random. The check
// refuses the file, or bbolt can read all of it.
func TestRandomDamageNeverPanics(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	fill(t, path)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for round := range 150 {
		b := append([]byte(nil), good...)
		if round%5 == 0 {
			b = b[:rng.IntN(len(b))]
		}
		for range 1 + rng.IntN(8) {
			if len(b) > 0 {
				b[min(rng.IntN(len(b)), rng.IntN(16*4096))%len(b)] = byte(rng.Uint32())
			}
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Check(path); err != nil {
			refused++
			continue
		}
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true})
		if err != nil {
			continue
		}
		err = db.Update(func(tx *bbolt.Tx) error {
			return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
				return b.ForEach(func(_, _ []byte) error { return nil })
			})
		})
		if err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		_ = db.Close()
	}
	if refused < 30 {
		t.Errorf("only %d of 150 were refused: nothing is tested", refused)
	}
}

// TestEmptiedBucket checks that a bucket passes at each step while its keys are deleted, and empty.
func TestEmptiedBucket(t *testing.T) {
	for _, step := range []int{0, 40, 700, 5000} {
		path := filepath.Join(t.TempDir(), "x.db")
		if step > 0 {
			fill(t, path)
		}
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		check := func() {
			t.Helper()
			if err := Check(path); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
		}
		check() // a file without a bucket, too
		rng := rand.New(rand.NewPCG(uint64(step), 3))
		keys := rng.Perm(2000)
		for len(keys) > 0 && step > 0 {
			n := min(step, len(keys))
			err := db.Update(func(tx *bbolt.Tx) error {
				for _, k := range keys[:n] {
					if err := tx.Bucket([]byte("bucket2")).Delete(binary.BigEndian.AppendUint64(nil, uint64(k))); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			keys = keys[n:]
			check()
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		check()
	}
}
