package pki

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/quorate/quorate/internal/syncdir"
)

// The files of a store's directory.
const (
	bundleFile = "ca.crt"
	certFile   = "node.crt"
	keyFile    = "node.key"
	nextKey    = "node.key.next" // key of a certificate that is about to be written
)

// OpenStore opens or creates the directory of the certificates that the cluster issued to this
// process. It may be empty. Directory and files are created readable by their owner only;
// [Store.Warnings] reports if others can read the key.
func OpenStore(dir string, o Options) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	s := NewStore(o)
	s.dir = dir
	m, err := s.load()
	if err != nil {
		return nil, fmt.Errorf("certificates in %s: %w", dir, err)
	}
	s.now.Store(m)
	return s, nil
}

func (s *Store) load() (*material, error) {
	m := s.current()
	if data, err := readFile(filepath.Join(s.dir, bundleFile)); err == nil {
		certs, err := ParseBundle(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", bundleFile, err)
		}
		m = m.withTrust(newTrust(certs))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	cert, err := readFile(filepath.Join(s.dir, certFile))
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, err
	}
	if m, err = s.loadPair(m, cert); err != nil {
		return nil, err
	}
	if cluster := s.opts.Cluster; cluster != "" && m.id.Cluster != cluster {
		return nil, fmt.Errorf("%s: is that of %s; must be of cluster %s", certFile, describe(m.leaf), cluster)
	}
	m.notes = openToOthers(filepath.Join(s.dir, keyFile))
	return m, nil
}

// loadPair reads the key of cert. It completes an Install that a crash interrupted between writing
// the certificate and its key.
func (s *Store) loadPair(m *material, cert []byte) (*material, error) {
	key, keyErr := readFile(filepath.Join(s.dir, keyFile))
	if keyErr == nil {
		next, err := m.withPair(cert, key)
		if !errors.Is(err, errKeyMismatch) {
			return next, err
		}
	}
	waiting, err := readFile(filepath.Join(s.dir, nextKey))
	if err == nil {
		if next, err := m.withPair(cert, waiting); err == nil {
			return next, s.rename(nextKey, keyFile)
		}
	}
	if keyErr != nil {
		return nil, fmt.Errorf("%s without its key: %w", certFile, keyErr)
	}
	return nil, fmt.Errorf("%s and %s: %w", certFile, keyFile, errKeyMismatch)
}

// writePair writes the new key to a file beside the old one first, so that the key of the
// certificate always exists: see loadPair.
func (s *Store) writePair(cert []byte, key KeyPEM) error {
	if s.dir == "" {
		return nil
	}
	if err := s.write(nextKey, key); err != nil {
		return err
	}
	if err := s.write(certFile, cert); err != nil {
		return err
	}
	return s.rename(nextKey, keyFile)
}

// write replaces a file atomically.
func (s *Store) write(name string, data []byte) error {
	if s.dir == "" {
		return nil
	}
	if err := syncdir.WriteFile(filepath.Join(s.dir, name), data); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	return nil
}

func (s *Store) rename(from, to string) error {
	if err := os.Rename(filepath.Join(s.dir, from), filepath.Join(s.dir, to)); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	if err := syncdir.Sync(s.dir); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	return nil
}

// readFile reads a file of at most maxPEM bytes.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxPEM+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(data) > maxPEM {
		return nil, fmt.Errorf("%s: has more than %d bytes", path, maxPEM)
	}
	return data, nil
}

// openToOthers returns a warning if others than its owner can access a key file. On Windows, where
// the mode does not say so, it returns none.
func openToOthers(path string) []string {
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: others than its owner can access it (mode %04o); chmod 600 it", path, info.Mode().Perm())}
}
