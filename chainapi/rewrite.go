package chainapi

import (
	"bytes"
	"strconv"

	"flotilla/gateway/config"
)

// corsHeaders are the lines that a port adds to every answer, each with its line
// end; empty without cors (seed 003 "CORS").
func corsHeaders(c *config.CORS) []byte {
	if c == nil {
		return nil
	}
	b := append([]byte("Access-Control-Allow-Origin: "), c.AllowOrigin...)
	b = append(b, "\r\n"...)
	if c.AllowHeaders != "" {
		b = append(append(append(b, "Access-Control-Allow-Headers: "...), c.AllowHeaders...), "\r\n"...)
	}
	if c.MaxAge != nil {
		b = strconv.AppendInt(append(b, "Access-Control-Max-Age: "...), int64(c.MaxAge.Seconds()), 10)
		b = append(b, "\r\n"...)
	}
	if c.AllowCredentials {
		b = append(b, "Access-Control-Allow-Credentials: true\r\n"...)
	}
	return b
}

// framing is how a client's answer ends.
type framing struct {
	// length of the body, negative when it is not known.
	length int
	// chunked: the body of unknown length comes in chunks; else its end is that
	// of the connection.
	chunked bool
	// closing: the connection ends with this answer.
	closing bool
	// keepAlive says that it does not, to a client of HTTP/1.0.
	keepAlive bool
}

// appendEnd adds the headers of the framing and ends the head.
func (f framing) appendEnd(b []byte) []byte {
	switch {
	case f.chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case f.length >= 0:
		b = strconv.AppendInt(append(b, "Content-Length: "...), int64(f.length), 10)
		b = append(b, "\r\n"...)
	}
	switch {
	case f.closing:
		b = append(b, "Connection: close\r\n"...)
	case f.keepAlive:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	return append(b, "\r\n"...)
}

// appendAnswer adds the head of an upstream's answer as the client gets it:
// status and headers without those that belong to one connection, without Date
// and without what the upstream says of other origins. end adds the framing.
func appendAnswer(b []byte, r *response, cors []byte) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(r.head.StatusCode()), 10)
	b = append(b, ' ')
	b = append(b, r.head.StatusMessage()...)
	b = append(b, "\r\n"...)
	hops := r.head.Peek("Connection")
	for name, value := range r.head.All() {
		if !passes(name) || len(hops) > 0 && hasToken(hops, string(name)) {
			continue
		}
		b = append(b, name...)
		b = append(b, ": "...)
		b = append(b, value...)
		b = append(b, "\r\n"...)
	}
	return append(b, cors...)
}

// passes reports whether a header of an answer goes on to the client. The
// framing is made anew.
func passes(name []byte) bool {
	is := func(other string) bool { return bytes.EqualFold(name, []byte(other)) }
	switch name[0] | 0x20 {
	case 'a':
		const cross = "Access-Control-"
		return len(name) < len(cross) || !bytes.EqualFold(name[:len(cross)], []byte(cross))
	case 'c':
		return !is("Connection") && !is("Content-Length")
	case 'd':
		return !is("Date")
	case 'k':
		return !is("Keep-Alive")
	case 'p':
		return !is("Proxy-Authenticate") && !is("Proxy-Authorization") && !is("Proxy-Connection")
	case 't':
		return !is("TE") && !is("Trailer") && !is("Transfer-Encoding")
	case 'u':
		return !is("Upgrade")
	}
	return true
}
