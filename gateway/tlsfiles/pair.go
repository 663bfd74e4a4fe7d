package tlsfiles

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"time"
)

const minRSABits = 2048

// pair is one certificate file with its key file. Handshakes read current;
// everything else that changes belongs to Load, then to Watch.
type pair struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
	// used is the content of current.
	used content
	// suspect is the latest failure, first met at since; reported is the one
	// that was logged last.
	suspect, reported failure
	since             time.Time
}

// content identifies what the two files held; zero when one was not readable.
type content struct{ cert, key [sha256.Size]byte }

// failure is one way in which a pair cannot be used. Other content that fails
// for the same reason is another failure: an attempt to repair it went wrong.
type failure struct {
	content content
	text    string
}

// load reads both files and puts the pair in use if they differ from what is
// used now. After an error the pair in use stays; what tells which content had
// that error.
func (p *pair) load() (replaced bool, what content, err error) {
	certPEM, err := readFile(p.certFile)
	if err != nil {
		return false, what, fmt.Errorf("certificate file %s: %w", p.certFile, err)
	}
	keyPEM, err := readFile(p.keyFile)
	if err != nil {
		return false, what, fmt.Errorf("key file %s: %w", p.keyFile, err)
	}
	what = content{sha256.Sum256(certPEM), sha256.Sum256(keyPEM)}
	if p.current.Load() != nil && what == p.used {
		return false, what, nil
	}
	cert, err := p.parse(certPEM, keyPEM)
	if err != nil {
		return false, what, err
	}
	p.used = what
	p.current.Store(cert)
	return true, what, nil
}

func (p *pair) parse(certPEM, keyPEM []byte) (*tls.Certificate, error) {
	chain, leaf, err := parseChain(certPEM)
	if err != nil {
		return nil, fmt.Errorf("certificate file %s: %w", p.certFile, err)
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", p.keyFile, err)
	}
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(leaf.PublicKey) {
		return nil, fmt.Errorf("key file %s does not belong to the first certificate of %s (%s)",
			p.keyFile, p.certFile, leaf.Subject)
	}
	return &tls.Certificate{Certificate: chain, PrivateKey: key, Leaf: leaf}, nil
}

// parseChain returns the certificates of a PEM file, leaf first, and the leaf
// parsed. Other blocks are skipped. The rest of the chain is for the client to
// judge, so it is not parsed here.
func parseChain(data []byte) (chain [][]byte, leaf *x509.Certificate, err error) {
	const kind = "CERTIFICATE"
	for block := range pemBlocks(data) {
		if block.Type == kind {
			chain = append(chain, block.Bytes)
		}
	}
	// The decoder passes over damaged blocks, a half-written file has one at
	// its end: without this the next certificate would count as the leaf, or
	// the chain would be cut short.
	begun := bytes.Count(data, []byte("-----BEGIN "+kind+"-----"))
	switch {
	case begun == 0:
		return nil, nil, errors.New("holds no PEM certificate; a DER file has to be converted to PEM")
	case len(chain) != begun:
		return nil, nil, fmt.Errorf("has damaged PEM: only %d of %d certificates can be read", len(chain), begun)
	}
	leaf, err = x509.ParseCertificate(chain[0])
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("its first certificate is damaged: %w", err)
	case leaf.Version < 3:
		return nil, nil, fmt.Errorf("is an X.509 version %d certificate; clients accept only version 3", leaf.Version)
	}
	return chain, leaf, nil
}

// parseKey returns the first private key of a PEM file that is not encrypted.
func parseKey(data []byte) (crypto.Signer, error) {
	encrypted := false
	for block := range pemBlocks(data) {
		switch {
		case !strings.HasSuffix(block.Type, "PRIVATE KEY"):
		case block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED"):
			encrypted = true
		default:
			return parseKeyBlock(block)
		}
	}
	if encrypted {
		return nil, errors.New("its private key is encrypted; store it without a passphrase, for example with openssl pkey")
	}
	return nil, errors.New("holds no PEM private key; a DER file has to be converted to PEM")
}

func parseKeyBlock(block *pem.Block) (crypto.Signer, error) {
	var key any
	var err error
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	default:
		return nil, fmt.Errorf("has a key of the unknown kind %q; use PKCS#8", block.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("its private key is damaged: %w", err)
	}
	if key, ok := key.(*rsa.PrivateKey); ok && key.N.BitLen() < minRSABits {
		return nil, fmt.Errorf("its RSA key has %d bits; at least %d are needed", key.N.BitLen(), minRSABits)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("its key cannot sign; use an RSA, ECDSA or Ed25519 key")
	}
	return signer, nil
}

func pemBlocks(data []byte) iter.Seq[*pem.Block] {
	return func(yield func(*pem.Block) bool) {
		for {
			var block *pem.Block
			if block, data = pem.Decode(data); block == nil || !yield(block) {
				return
			}
		}
	}
}

// warning says that the certificate in use is out of its dates, or nothing.
func (p *pair) warning(now time.Time) string {
	leaf := p.current.Load().Leaf
	switch {
	case now.After(leaf.NotAfter):
		return fmt.Sprintf("certificate file %s: expired at %s", p.certFile, leaf.NotAfter.Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Sprintf("certificate file %s: not valid before %s", p.certFile, leaf.NotBefore.Format(time.RFC3339))
	}
	return ""
}
