package chainapi

import (
	"fmt"
	"net/http"
	"strconv"
)

// own is an answer that the port writes itself, in the shape of nodeos's errors
// (seed 003 "Errors the router writes").
type own struct {
	status int
	body   []byte
	// bare: without the configured headers for other origins, as nodeos has it.
	bare bool
}

var (
	illegal = own{status: 400, bare: true, body: []byte(`{"code":400,"message":"Illegal request-target","error":{"code":0,"name":"","what":"","details":[]}}`)}
	unknown = own{status: 404, body: []byte(`{"code":404,"message":"Not Found","error":{"code":0,"name":"exception","what":"unspecified","details":[{"message":"Unknown Endpoint","file":"beast_http_session.hpp","line_number":186,"method":"handle_request"}]}}`)}
	options = own{status: 200, body: []byte(`{}`)}

	noUpstream = busy("No chain API upstream available")
	noLive     = busy("No live chain API upstream available")
	lost       = busy("Upstream connection lost after the request was sent")
)

// busy is the 503 with a reason.
func busy(reason string) own {
	return own{status: 503, body: fmt.Appendf(nil, `{"code":503,"message":"Busy","error":{"code":503,"name":"Busy","what":"%s","details":[]}}`, reason)}
}

// tooMany is the answer of a port with n requests in flight.
func tooMany(n int) own { return busy("Too many requests in flight: " + strconv.Itoa(n)) }

// bodyTooLarge is the answer to a request body over max bytes.
func bodyTooLarge(max int64) own {
	return own{status: 413, body: fmt.Appendf(nil, `{"code":413,"message":"Payload Too Large","error":{"code":413,"name":"Payload Too Large","what":"Request body exceeds %d bytes","details":[]}}`, max)}
}

// answerTooLarge replaces an upstream's answer over max bytes.
func answerTooLarge(max int64) own {
	return own{status: 502, body: fmt.Appendf(nil, `{"code":502,"message":"Bad Gateway","error":{"code":502,"name":"Bad Gateway","what":"Upstream answer exceeds %d bytes","details":[]}}`, max)}
}

// appendHead adds the head of an own answer.
func (o own) appendHead(b, cors []byte, f framing) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(o.status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(o.status)...)
	b = append(b, "\r\nContent-Type: application/json\r\n"...)
	if !o.bare {
		b = append(b, cors...)
	}
	f.length = len(o.body)
	return f.appendEnd(b)
}

// refusal is the plain answer to a head that the parser does not take.
func refusal(status int) []byte {
	text := http.StatusText(status)
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, text, len(text), text)
}
