// Package tlsfiles turns certificate files into TLS configurations: those that
// client ports present (Certificates, spec "config" 6) and those that verify
// upstreams (Trust, spec "config" 7). Both follow changes of their files, so
// that a renewed certificate or a new CA needs no restart.
package tlsfiles

import (
	"crypto/tls"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"flotilla/gateway/config"
)

// Certificates holds the certificates of one client port. All methods are safe
// for concurrent use; Watch may run only once at a time.
type Certificates struct {
	// pairs has the default first, then the SNI entries in file order.
	pairs []*pair
	// exact and wildcard find the pair of a lower-case host name; wildcard
	// is keyed by what follows "*.".
	exact, wildcard map[string]*pair

	reloads, failures atomic.Uint64
	// stale is how many pairs are older than their files, which cannot be used.
	stale atomic.Int64
}

// Load reads every pair that cfg names; cfg must not be nil. When pairs cannot
// be used, the error joins one cause for each of them, and each names the file.
// A relative path starts at the working directory of the process. A name that
// is listed twice belongs to the first entry.
//
// A certificate that is out of its dates is loaded all the same; see Warnings.
func Load(cfg *config.TLS) (*Certificates, error) {
	c := &Certificates{exact: map[string]*pair{}, wildcard: map[string]*pair{}}
	c.pairs = append(c.pairs, &pair{certFile: cfg.CertFile, keyFile: cfg.KeyFile})
	for _, sni := range cfg.SNI {
		p := &pair{certFile: sni.CertFile, keyFile: sni.KeyFile}
		c.pairs = append(c.pairs, p)
		for _, name := range sni.ServerNames {
			c.assign(name, p)
		}
	}
	var errs []error
	for _, p := range c.pairs {
		if _, _, err := p.load(); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return c, nil
}

func (c *Certificates) assign(name string, p *pair) {
	name = strings.ToLower(strings.TrimSpace(name))
	names := c.exact
	if domain, ok := strings.CutPrefix(name, "*."); ok {
		name, names = domain, c.wildcard
	}
	if _, taken := names[name]; !taken {
		names[name] = p
	}
}

// Config returns a new server configuration: TLS 1.2 and 1.3, no ALPN. Each
// handshake takes the certificate in use at that moment: that of the exact
// host name, else that of a wildcard for its last labels, else the default,
// which also serves clients without SNI. No name is refused.
//
// Use it with tls.NewListener; http.Server.ServeTLS would add ALPN for HTTP/2.
func (c *Certificates) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.pick(hello.ServerName).current.Load(), nil
		},
	}
}

func (c *Certificates) pick(name string) *pair {
	name = strings.ToLower(name)
	if p, ok := c.exact[name]; ok {
		return p
	}
	// A wildcard stands for exactly one label, and that one is not empty.
	if label, domain, ok := strings.Cut(name, "."); ok && label != "" {
		if p, ok := c.wildcard[domain]; ok {
			return p
		}
	}
	return c.pairs[0]
}

// Reloads is how many times Watch has replaced a pair.
func (c *Certificates) Reloads() uint64 { return c.reloads.Load() }

// ReloadFailures is how many distinct failures Watch has met: a pair that stays
// as it is counts once, however often it is looked at.
func (c *Certificates) ReloadFailures() uint64 { return c.failures.Load() }

// UpToDate reports whether what is in use is what the files hold. It is false
// from the moment when Watch has logged that a pair cannot be replaced, until
// that pair can be.
func (c *Certificates) UpToDate() bool { return c.stale.Load() == 0 }

// NotAfter is the earliest expiry among the certificates in use; CA
// certificates that follow them in their files do not count.
func (c *Certificates) NotAfter() time.Time {
	var first time.Time
	for _, p := range c.pairs {
		if end := p.current.Load().Leaf.NotAfter; first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first
}

// Warnings has one text for each certificate in use that has expired or is not
// valid yet, in file order. It is for the time of the call.
func (c *Certificates) Warnings() []string {
	var texts []string
	now := time.Now()
	for _, p := range c.pairs {
		if text := p.warning(now); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}
