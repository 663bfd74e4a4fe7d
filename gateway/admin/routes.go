package admin

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Content types of the answers, as the peer spells them.
const (
	plainText   = "text/plain"
	jsonText    = "application/json"
	metricsText = "text/plain; version=0.0.4"
)

// answer is a whole response.
type answer struct {
	code        int
	contentType string
	body        []byte
}

// line is a plain-text answer of one line.
func line(code int, format string, args ...any) answer {
	return answer{code, plainText, fmt.Appendf(nil, format+"\n", args...)}
}

var notFound = line(http.StatusNotFound, "not found")

// route answers one request from the state of that moment.
type route func(st *State, r *http.Request) answer

// route finds what answers a decoded path, nil when nothing does.
func (s *Server) route(path string) route {
	switch path {
	case "/health", "/healthz":
		return health
	case "/ready", "/readyz":
		return ready
	case "/coverage":
		return s.coverage
	case "/metrics":
		return s.metrics
	case "/api/v1/sessions":
		return sessions
	}
	if rest, ok := strings.CutPrefix(path, "/coverage/"); ok {
		return s.coverageOf(rest)
	}
	if rest, ok := strings.CutPrefix(path, "/api/v1/listeners/"); ok {
		if name, ok := strings.CutSuffix(rest, "/explain"); ok {
			return explainOf(name)
		}
	}
	if rest, ok := strings.CutPrefix(path, "/ready/"); ok {
		return readyOf(rest)
	}
	if rest, ok := strings.CutPrefix(path, "/readyz/"); ok {
		return readyOf(rest)
	}
	return nil
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	a := notFound
	switch found := s.route(r.URL.Path); {
	case found == nil && strings.HasPrefix(r.URL.Path, controlPrefix):
		var allow string
		if a, allow = s.control(s.state(), r); allow != "" {
			h.Set("Allow", allow)
		}
	case found == nil:
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET,HEAD")
		a = line(http.StatusMethodNotAllowed, "method not allowed")
	default:
		a = found(s.state(), r)
	}
	h.Set("Content-Type", a.contentType)
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	// Some texts repeat a part of the request; no browser shall guess that it
	// is a page.
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(a.code)
	if r.Method == http.MethodHead {
		return
	}
	if _, err := w.Write(a.body); err != nil {
		s.log.Debug("an admin client left before its answer", "client", r.RemoteAddr, "path", r.URL.Path, "error", err)
	}
}

// health is 200 as long as the process runs (1.2). A configuration that could
// not be applied is told in a second line.
func health(st *State, _ *http.Request) answer {
	if st.ReloadOK {
		return line(http.StatusOK, "ok")
	}
	return line(http.StatusOK, "ok\nthe last reload failed: %s", oneLine(st.ReloadError))
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
