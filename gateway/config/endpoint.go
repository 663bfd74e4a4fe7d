package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// endpoint is the address of a node, spec "config" 5.1.
type endpoint struct {
	scheme, user string
	// host has brackets when it is an IPv6 address.
	host string
	port uint16
	// path begins with "/", query with "?" or is empty.
	path, query string
	// What the text left to a default or has in vain.
	noPort, fragment bool
}

const endpointForms = "host:port, ws://host:port or wss://host:port is expected"

// parseEndpoint reads a SHiP endpoint. Its errors go on after the name of the
// field.
func parseEndpoint(written string) (endpoint, error) {
	e := endpoint{scheme: "ws"}
	rest := strings.TrimSpace(written)
	if scheme, after, ok := strings.Cut(rest, "://"); ok && !strings.ContainsAny(scheme, "/?#@") {
		if !isScheme(scheme) {
			return e, fmt.Errorf("%s has a malformed scheme", quote(written))
		}
		e.scheme, rest = strings.ToLower(scheme), after
		if e.scheme != "ws" && e.scheme != "wss" {
			return e, fmt.Errorf("%s has the scheme %s, which is not supported", quote(written), quote(scheme))
		}
	}
	rest, _, e.fragment = strings.Cut(rest, "#")
	authority := rest
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, rest = rest[:i], rest[i:]
	} else {
		rest = ""
	}
	e.path, e.query = rest, ""
	if i := strings.IndexByte(rest, '?'); i >= 0 {
		e.path, e.query = rest[:i], rest[i:]
	}
	if e.path == "" {
		e.path = "/"
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		e.user, authority = authority[:i+1], authority[i+1:]
	}
	var err error
	var hasPort bool
	if e.host, e.port, hasPort, err = splitHostPort(authority); err != nil {
		return e, fmt.Errorf("%s %w", quote(written), err)
	}
	if !hasPort {
		e.noPort, e.port = true, 80
		if e.scheme == "wss" {
			e.port = 443
		}
	}
	if strings.ContainsFunc(e.path+e.query, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return e, fmt.Errorf("%s has a path or query with a character that has to be percent-encoded", quote(written))
	}
	// This is how it will be dialed.
	if _, err := url.Parse(e.url()); err != nil {
		return e, fmt.Errorf("%s is not a WebSocket URL", quote(written))
	}
	return e, nil
}

func isScheme(s string) bool {
	for i, c := range []byte(s) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789+-.", rune(c))) {
			return false
		}
	}
	return s != ""
}

// url is the dial target: scheme, host, port, path and query.
func (e *endpoint) url() string {
	return fmt.Sprintf("%s://%s:%d%s%s", e.scheme, e.host, e.port, e.path, e.query)
}

// key is equal for two spellings of one target (spec "config" 5.2).
func (e *endpoint) key() string {
	return fmt.Sprintf("%s://%s%s:%d%s%s", e.scheme, e.user, canonicalHost(e.host), e.port, e.path, e.query)
}

// splitHostPort reads host, host:port, [v6] or [v6]:port. The host keeps its
// brackets. Its errors go on after the text.
func splitHostPort(authority string) (host string, port uint16, hasPort bool, err error) {
	host = authority
	digits := ""
	if strings.HasPrefix(authority, "[") {
		end := strings.IndexByte(authority, ']')
		if end < 0 {
			return "", 0, false, errors.New("has a bracket that is not closed")
		}
		host, digits = authority[:end+1], authority[end+1:]
		inside := strings.Replace(host[1:end], "%25", "%", 1)
		if ip, parseErr := netip.ParseAddr(inside); parseErr != nil || !ip.Is6() {
			return "", 0, false, errors.New("has no IPv6 address in its brackets")
		}
		if digits != "" && digits[0] != ':' {
			return "", 0, false, errors.New("has something other than a port behind the brackets")
		}
		hasPort = digits != ""
		digits = strings.TrimPrefix(digits, ":")
	} else {
		host, digits, hasPort = strings.Cut(authority, ":")
		switch {
		case strings.Contains(digits, ":"):
			return "", 0, false, errors.New("has more than one colon; an IPv6 address needs brackets, [::1]:8080")
		case host == "":
			return "", 0, false, errors.New("has no host")
		case !isHostName(host):
			return "", 0, false, errors.New("has a host with a character that no host name has")
		}
	}
	if !hasPort {
		return host, 0, false, nil
	}
	n, ok := parsePort(digits)
	if !ok {
		return "", 0, false, fmt.Errorf("has the port %s; a port is a number from 1 to 65535", quote(digits))
	}
	return host, n, true, nil
}

func parsePort(digits string) (uint16, bool) {
	n, err := strconv.ParseUint(digits, 10, 16)
	return uint16(n), err == nil && n > 0
}

func isHostName(host string) bool {
	for _, c := range []byte(host) {
		alnum := c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
		if !alnum && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return host != ""
}

// canonicalHost is equal for two spellings of one host.
func canonicalHost(host string) string {
	host = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.String()
	}
	return host
}

const apiForms = "http://host[:port] or host:port is expected"

// parseAPIEndpoint reads the address of a node's HTTP API (spec "config" 5.3)
// and returns host:port. Its errors go on after the name of the field.
func parseAPIEndpoint(written string) (string, error) {
	rest := strings.TrimSpace(written)
	scheme, after, hasScheme := strings.Cut(rest, "://")
	if hasScheme {
		switch strings.ToLower(scheme) {
		case "http":
		case "https":
			return "", fmt.Errorf("%s is https, which is not available for the API of a node", quote(written))
		default:
			return "", fmt.Errorf("%s has a scheme that is not supported", quote(written))
		}
		rest = strings.TrimSuffix(after, "/")
	}
	if strings.ContainsAny(rest, "/?#@") {
		return "", fmt.Errorf("%s has more than a host and a port", quote(written))
	}
	host, port, hasPort, err := splitHostPort(rest)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s %w", quote(written), err)
	case !hasPort && !hasScheme:
		return "", fmt.Errorf("%s has no port", quote(written))
	case !hasPort:
		port = 80
	}
	return fmt.Sprintf("%s:%d", host, port), nil
}

// bind is an address to listen on.
type bind struct {
	host string
	port uint16
}

const wildcard = "0.0.0.0"

// parseBind reads host:port; a missing host is every interface. Its errors go
// on after the name of the field.
func parseBind(written string) (bind, error) {
	trimmed := strings.TrimSpace(written)
	host, digits, err := net.SplitHostPort(trimmed)
	if err != nil {
		return bind{}, fmt.Errorf("is %s", quote(written))
	}
	port, ok := parsePort(digits)
	if !ok {
		return bind{}, fmt.Errorf("is %s, which has no valid port", quote(written))
	}
	if host == "" {
		host = wildcard
	}
	if !isBindHost(host) {
		return bind{}, fmt.Errorf("is %s, whose host is neither an address nor a name", quote(written))
	}
	return bind{host, port}, nil
}

// isBindHost takes addresses, without brackets, and host names.
func isBindHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return isHostName(host)
}

func (b bind) String() string { return net.JoinHostPort(b.host, strconv.Itoa(int(b.port))) }

// clashes reports whether both cannot be bound (spec "config" 3.3).
func (b bind) clashes(other bind) bool {
	one, two := canonicalHost(b.host), canonicalHost(other.host)
	return b.port == other.port && (one == two || isWildcard(one) || isWildcard(two))
}

func isWildcard(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsUnspecified()
}
