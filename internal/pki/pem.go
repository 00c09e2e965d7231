package pki

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// Bounds of input, so that a wrong file or an untrusted answer cannot exhaust memory.
const (
	maxPEM    = 1 << 20 // bytes of a file
	maxBundle = 64      // certificates
)

const certType, keyType = "CERTIFICATE", "PRIVATE KEY"

// EncodeCertificates encodes certificates as concatenated PEM.
func EncodeCertificates(certs ...*x509.Certificate) []byte {
	var out bytes.Buffer
	for _, c := range certs {
		out.Write(encodeCert(c.Raw))
	}
	return out.Bytes()
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certType, Bytes: der})
}

// ParseCertificates parses 1 to 64 PEM certificates. Text between them is skipped, as is usual in
// such files. Blocks of another type are an error, so that no key goes unnoticed in a public file.
func ParseCertificates(data []byte) ([]*x509.Certificate, error) {
	if len(data) > maxPEM {
		return nil, fmt.Errorf("certificates: %d bytes; at most %d", len(data), maxPEM)
	}
	var out []*x509.Certificate
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			break
		}
		data = rest
		if block.Type != certType {
			return nil, fmt.Errorf("certificates: have a PEM block %q; must be %s alone", clip(block.Type), certType)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificates: number %d: %w", len(out)+1, err)
		}
		if out = append(out, cert); len(out) > maxBundle {
			return nil, fmt.Errorf("certificates: more than %d", maxBundle)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("certificates: none found; must be PEM, -----BEGIN CERTIFICATE-----")
	}
	return out, nil
}

// ParseBundle parses a trust bundle: certificates of CAs.
func ParseBundle(data []byte) ([]*x509.Certificate, error) {
	certs, err := ParseCertificates(data)
	if err != nil {
		return nil, err
	}
	for i, c := range certs {
		// Without this a leaf in the bundle would be trusted by itself.
		if !c.BasicConstraintsValid || !c.IsCA {
			return nil, fmt.Errorf("certificates: number %d (%s) is not a CA certificate; a trust bundle must contain only those", i+1, describe(c))
		}
	}
	return certs, nil
}

func encodeKey(key crypto.Signer) (KeyPEM, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyType, Bytes: der}), nil
}

// parseKey parses a private key. Its errors contain nothing of it.
func parseKey(data []byte) (crypto.Signer, error) {
	if len(data) > maxPEM {
		return nil, fmt.Errorf("private key: is %d bytes; at most %d", len(data), maxPEM)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("private key: none found; must be PEM, -----BEGIN PRIVATE KEY-----")
	}
	var key any
	var err error
	switch block.Type {
	case keyType:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "ENCRYPTED PRIVATE KEY":
		return nil, errors.New("private key: is encrypted with a password; must be without one")
	default:
		return nil, fmt.Errorf("private key: is a PEM block %q; must be %s", clip(block.Type), keyType)
	}
	if err != nil {
		return nil, errors.New("private key: cannot be read; the file is damaged")
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("private key: is a %T, which cannot sign", key)
	}
	return signer, checkPublicKey(signer.Public())
}
