package pki

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// Files are certificate files that Quorate reads and never writes: of the operator's own CA, or
// given to a client.
type Files struct {
	CA   string // trust bundle
	Cert string // certificate and intermediates; may be empty for a client
	Key  string // its key; given with Cert or not at all
}

// lookEvery is the shortest interval between reads of the operator's files. Their content is
// compared: a mounted volume may change without a new mtime.
const lookEvery = 2 * time.Second

type fileData struct{ ca, cert, key []byte }

// OpenFiles opens a store on the operator's files. They are read again when they are used, at most
// every two seconds. While they cannot be read or are inconsistent, the previous ones stay in use
// and the log says so.
//
// In such a store a node's certificate may lack a URI SAN: it is then valid for every node whose ID
// is among its DNS SANs.
func OpenFiles(files Files, o Options) (*Store, error) {
	if files.CA == "" {
		return nil, errors.New("certificates: the file of the CA is not given")
	}
	if (files.Cert == "") != (files.Key == "") {
		return nil, errors.New("certificates: a certificate and its key must be given together")
	}
	s := NewStore(o)
	s.files, s.looked = &files, s.opts.Now()
	data, err := files.read()
	if err != nil {
		return nil, err
	}
	m, err := s.adopt(data)
	if err != nil {
		return nil, err
	}
	s.read = data
	s.now.Store(m)
	return s, nil
}

func (f *Files) read() (d fileData, err error) {
	for _, one := range []struct {
		path string
		to   *[]byte
	}{{f.CA, &d.ca}, {f.Cert, &d.cert}, {f.Key, &d.key}} {
		if one.path == "" {
			continue
		}
		if *one.to, err = readFile(one.path); err != nil {
			return d, fmt.Errorf("certificates: %w", err)
		}
	}
	return d, nil
}

// adopt returns the material in the files.
func (s *Store) adopt(d fileData) (*material, error) {
	certs, err := ParseBundle(d.ca)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.files.CA, err)
	}
	m := &material{trust: newTrust(certs)}
	if s.files.Cert == "" {
		return m, nil
	}
	if m, err = m.withPair(d.cert, d.key); err != nil {
		return nil, fmt.Errorf("%s and %s: %w", s.files.Cert, s.files.Key, err)
	}
	m.notes = openToOthers(s.files.Key)
	return m, nil
}

// look reads the operator's files if they are due. Until it has, concurrent callers use the current
// ones: a slow disk delays one handshake.
func (s *Store) look() {
	if s.files == nil || !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	now := s.opts.Now()
	if since := now.Sub(s.looked); since >= 0 && since < lookEvery {
		return
	}
	s.looked = now
	data, err := s.files.read()
	if err == nil && data.equal(s.read) {
		s.failed = ""
		return
	}
	var m *material
	if err == nil {
		m, err = s.adopt(data)
	}
	if err != nil {
		if s.failed != err.Error() {
			s.failed = err.Error()
			s.opts.Log.Warn("certificates could not be read again; the previous ones stay in use", "err", err)
		}
		return
	}
	s.read, s.failed = data, ""
	s.now.Store(m)
	s.opts.Log.Info("certificates were read again", "ca", s.files.CA, "certificate", s.files.Cert)
}

func (d fileData) equal(o fileData) bool {
	return bytes.Equal(d.ca, o.ca) && bytes.Equal(d.cert, o.cert) && bytes.Equal(d.key, o.key)
}
