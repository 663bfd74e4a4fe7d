package config

import (
	"strings"
	"testing"
)

func TestEndpoint(t *testing.T) {
	for _, c := range []struct{ written, url string }{
		{"h:1", "ws://h:1/"},
		{" h:1 ", "ws://h:1/"},
		{"h", "ws://h:80/"},
		{"WS://H:1", "ws://H:1/"},
		{"wss://h", "wss://h:443/"},
		{"wss://h:80", "wss://h:80/"},
		{"ws://h/path?q=1", "ws://h:80/path?q=1"},
		{"h:1/x", "ws://h:1/x"},
		{"h:1?q", "ws://h:1/?q"},
		{"h:1/a//b?x://y", "ws://h:1/a//b?x://y"},
		{"h:1#f", "ws://h:1/"},
		{"ws://user:pw@h:1", "ws://h:1/"},
		{"[::1]:8080", "ws://[::1]:8080/"},
		{"ws://[::1]", "ws://[::1]:80/"},
		{"ship_1.example-x.com:08080", "ws://ship_1.example-x.com:8080/"},
	} {
		e, err := parseEndpoint(c.written)
		if err != nil || e.url() != c.url {
			t.Errorf("%q gives %q, %v; want %q", c.written, e.url(), err, c.url)
		}
	}
}

func TestEndpointErrors(t *testing.T) {
	for _, c := range []struct{ written, word string }{
		{"::1", "brackets"},
		{"::1:8080", "brackets"},
		{"[::1", "bracket"},
		{"[::1]x", "brackets"},
		{"[1.2.3.4]:1", "IPv6"},
		{"h:", "port"},
		{"h:abc", "port"},
		{"h:0", "port"},
		{"h:99999", "port"},
		{"h:+1", "port"},
		{"https://h", "not supported"},
		{"tcp://h", "not supported"},
		{"1ws://h", "malformed scheme"},
		{"://h", "malformed scheme"},
		{"ws://", "no host"},
		{"ws:///x", "no host"},
		{":8080", "no host"},
		{"a b:1", "character"},
		{"ünïcode:1", "character"},
		{"h:1/a b", "percent-encoded"},
		{"h:1/%zz", "WebSocket URL"},
	} {
		e, err := parseEndpoint(c.written)
		if err == nil {
			t.Errorf("%q gives %q, want an error", c.written, e.url())
		} else if !strings.Contains(err.Error(), c.word) {
			t.Errorf("%q gives %q, want %q in it", c.written, err, c.word)
		}
	}
}

func TestEndpointErrorHidesThePassword(t *testing.T) {
	_, err := parseEndpoint("http://me:secret@h:1")
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

func TestEndpointKey(t *testing.T) {
	for _, c := range []struct {
		one, two string
		same     bool
	}{
		{"h:1", "ws://H:1", true},
		{"h:1", "ws://h:1/", true},
		{"h", "h:80", true},
		{"wss://h", "wss://h:443", true},
		{"[::1]:1", "[0:0:0::1]:1", true},
		{"h:1", "wss://h:1", false},
		{"h:1", "h:1/x", false},
		{"h:1", "h:1?q", false},
		{"h:1", "ws://u@h:1", false},
		{"localhost:1", "127.0.0.1:1", false},
	} {
		one, err1 := parseEndpoint(c.one)
		two, err2 := parseEndpoint(c.two)
		if err1 != nil || err2 != nil || (one.key() == two.key()) != c.same {
			t.Errorf("%q and %q: same is not %v (%v, %v)", c.one, c.two, c.same, err1, err2)
		}
	}
}

func TestAPIEndpoint(t *testing.T) {
	for _, c := range []struct{ written, want string }{
		{"h:8888", "h:8888"},
		{"http://h", "h:80"},
		{"HTTP://H/", "H:80"},
		{"http://h:8888/", "h:8888"},
		{"http://[::1]", "[::1]:80"},
		{"[::1]:1", "[::1]:1"},
		// Refused.
		{"https://h:1", ""}, {"ftp://h:1", ""}, {"h", ""}, {"h:1/", ""}, {"http://h/x", ""}, {"http://h?q", ""}, {"http://h#f", ""},
		{"http://u@h", ""}, {"h:0", ""}, {"h:65536", ""}, {"", ""}, {"::1:80", ""}, {"http://", ""}, {"http://h//", ""},
	} {
		got, err := parseAPIEndpoint(c.written)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q gives %q, %v; want %q", c.written, got, err, c.want)
		}
	}
}

func TestBindClashes(t *testing.T) {
	for _, c := range []struct {
		one, two string
		clash    bool
	}{
		{"127.0.0.1:1", "127.0.0.1:1", true},
		{"127.0.0.1:1", "127.0.0.1:2", false},
		{"127.0.0.1:1", "127.0.0.2:1", false},
		{"0.0.0.0:1", "127.0.0.1:1", true},
		{"127.0.0.1:1", "[::]:1", true},
		{"[0:0:0:0:0:0:0:0]:1", "10.0.0.1:1", true},
		{"[::1]:1", "[0::1]:1", true},
		{"Host:1", "host:1", true},
		{"localhost:1", "127.0.0.1:1", false},
	} {
		one, err1 := parseBind(c.one)
		two, err2 := parseBind(c.two)
		if err1 != nil || err2 != nil || one.clashes(two) != c.clash || two.clashes(one) != c.clash {
			t.Errorf("%q and %q: clash is not %v (%v, %v)", c.one, c.two, c.clash, err1, err2)
		}
	}
}
