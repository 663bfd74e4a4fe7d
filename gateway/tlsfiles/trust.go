package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Trust verifies upstreams (spec "config" 7). When SSL_CERT_FILE or
// SSL_CERT_DIR is set and not empty, only the certificates found there are
// trusted, those of both together; otherwise it is the store of the system,
// which the runtime reads once in the life of the process. SSL_CERT_FILE is one
// PEM bundle. SSL_CERT_DIR is a list of folders, split on ":" (";" on Windows),
// of which every file is tried, whatever its name; entries without a
// certificate are skipped.
//
// Trust is safe for concurrent use.
type Trust struct {
	file string
	// dirs is SSL_CERT_DIR as it was given, for messages.
	dirs string

	mu sync.Mutex
	// pool was made from the files in stamps; nil before the first success.
	pool   *x509.CertPool
	stamps []stamp
}

// stamp tells a file from what it was before, without reading it.
type stamp struct {
	path string
	info fs.FileInfo
}

func (s stamp) equal(t stamp) bool {
	return s.path == t.path && os.SameFile(s.info, t.info) &&
		s.info.ModTime().Equal(t.info.ModTime()) && s.info.Size() == t.info.Size() && s.info.Mode() == t.info.Mode()
}

// NewTrust takes the two environment variables as they are now. It reads no
// file yet.
func NewTrust() *Trust {
	return &Trust{file: os.Getenv("SSL_CERT_FILE"), dirs: os.Getenv("SSL_CERT_DIR")}
}

// Upstream is the configuration for a single dial. Whoever dials more than once
// keeps a Trust, which does not parse unchanged files again.
func Upstream(serverName string) (*tls.Config, error) { return NewTrust().Config(serverName) }

// Config returns a new client configuration for the upstream serverName, a host
// name or an IP address, which is checked against the IP addresses of the
// certificate; brackets and a zone of an IPv6 address do not count. It is TLS
// 1.2 and 1.3 without ALPN. The files are read again if path, identity, mtime,
// size or mode of one has changed. The error says that no trusted certificate
// could be loaded, and from which paths.
func (t *Trust) Config(serverName string) (*tls.Config, error) {
	pool, err := t.anchors()
	if err != nil {
		return nil, err
	}
	if ip, err := netip.ParseAddr(strings.Trim(serverName, "[]")); err == nil {
		serverName = ip.WithZone("").String()
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, ServerName: serverName, RootCAs: pool}, nil
}

// anchors returns nil for the system's store.
func (t *Trust) anchors() (*x509.CertPool, error) {
	if t.file == "" && t.dirs == "" {
		return nil, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	stamps, errs := t.scan()
	if t.pool != nil && slices.EqualFunc(stamps, t.stamps, stamp.equal) {
		return t.pool, nil
	}
	pool := x509.NewCertPool()
	loaded := false
	for _, s := range stamps {
		data, err := readFile(s.path)
		if err == nil && pool.AppendCertsFromPEM(data) {
			loaded = true
			continue
		}
		if err == nil {
			err = errors.New("holds no PEM certificate")
		}
		errs = append(errs, fmt.Errorf("%s: %w", s.path, err))
	}
	if !loaded {
		return nil, t.nothing(errs)
	}
	t.pool, t.stamps = pool, stamps
	return pool, nil
}

// scan lists the files that may hold anchors, and what could not be listed.
func (t *Trust) scan() (stamps []stamp, errs []error) {
	add := func(path string) {
		info, err := os.Stat(path)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, unreadable(err)))
		} else {
			stamps = append(stamps, stamp{path, info})
		}
	}
	if t.file != "" {
		add(t.file)
	}
	for _, dir := range filepath.SplitList(t.dirs) {
		if dir == "" {
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", dir, unreadable(err)))
		}
		for _, entry := range entries {
			add(filepath.Join(dir, entry.Name()))
		}
	}
	return stamps, errs
}

// nothing is the error when no file gave an anchor. A folder may hold hundreds
// of files; the first few causes are enough.
func (t *Trust) nothing(errs []error) error {
	const shown = 5
	var from, causes []string
	if t.file != "" {
		from = append(from, "SSL_CERT_FILE="+t.file)
	}
	if t.dirs != "" {
		from = append(from, "SSL_CERT_DIR="+t.dirs)
	}
	for _, err := range errs[:min(len(errs), shown)] {
		causes = append(causes, err.Error())
	}
	if more := len(errs) - len(causes); more > 0 {
		causes = append(causes, fmt.Sprintf("and %d more", more))
	}
	if len(causes) == 0 {
		causes = []string{"no file is there"}
	}
	return fmt.Errorf("no trusted certificate could be loaded from %s: %s; correct the path, or unset it to use the system's store",
		strings.Join(from, " and "), strings.Join(causes, "; "))
}
