package evm

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"strings"

	"flotilla/gateway/config"

	"github.com/valyala/fasthttp"
)

// Status is what GET /health of the management API tells (seed 004
// "Management API").
type Status struct {
	Servers      []ServerStatus `json:"servers"`
	Healthy      int            `json:"healthy_count"`
	Total        int            `json:"total_count"`
	Tip          *uint64        `json:"fleet_tip"`
	External     *uint64        `json:"external_tip"`
	Lagging      bool           `json:"fleet_lagging"`
	GetLogsLimit int            `json:"eth_getLogs_limit"`
}

// ServerStatus is one node of it.
type ServerStatus struct {
	URL     string  `json:"url"`
	Healthy bool    `json:"healthy"`
	Block   *uint64 `json:"block"`
	// ResponseTime is in seconds.
	ResponseTime *float64 `json:"response_time"`
	// LastCheck is Unix time in seconds, 0 before the first check.
	LastCheck           float64 `json:"last_check"`
	ConsecutiveFailures int     `json:"consecutive_failures"`
	LastError           *string `json:"last_error"`
	ClientVersion       *string `json:"client_version"`
}

// Status is what is known of the fleet now.
func (l *Listener) Status() Status {
	v := l.View()
	s := Status{Servers: []ServerStatus{}, Healthy: len(v.Pool), Total: len(v.Nodes), External: v.External, Lagging: v.Lagging,
		GetLogsLimit: l.Config().Limits.GetLogs}
	if v.TipKnown {
		s.Tip = &v.Tip
	}
	for _, n := range v.Nodes {
		x := ServerStatus{URL: n.Server.Endpoint, Healthy: n.State.Healthy, ConsecutiveFailures: n.State.Failures}
		if n.State.Known {
			x.Block = &n.State.Height
			rtt := n.RTT.Seconds()
			x.ResponseTime = &rtt
		}
		if !n.Checked.IsZero() {
			x.LastCheck = float64(n.Checked.UnixMicro()) / 1e6
		}
		if n.State.Err != "" {
			x.LastError = &n.State.Err
		}
		if n.Version != "" {
			x.ClientVersion = &n.Version
		}
		s.Servers = append(s.Servers, x)
	}
	return s
}

// serveManagement answers one request of the management port.
func (l *Listener) serveManagement(ctx *fasthttp.RequestCtx) {
	act := map[string]func(*fasthttp.RequestCtx){
		"/health": l.manageHealth, "/loglevel": l.manageLogLevel, "/servers/add": l.manageAdd, "/servers/remove": l.manageRemove,
	}[string(ctx.Path())]
	wanted := ctx.IsPost()
	if string(ctx.Path()) == "/health" {
		wanted = ctx.IsGet() || ctx.IsHead()
	}
	switch {
	case act == nil:
		plain(&ctx.Response, fasthttp.StatusNotFound, "404: Not Found")
	case !wanted:
		plain(&ctx.Response, fasthttp.StatusMethodNotAllowed, "405: Method Not Allowed")
	default:
		act(ctx)
	}
	if l.ctx.Err() != nil {
		ctx.Response.SetConnectionClose()
	}
}

// answerJSON writes a value, which can always be written.
func answerJSON(ctx *fasthttp.RequestCtx, code int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		plain(&ctx.Response, fasthttp.StatusInternalServerError, err.Error())
		return
	}
	ctx.Response.SetStatusCode(code)
	ctx.Response.Header.SetContentType("application/json; charset=utf-8")
	ctx.Response.SetBody(text)
}

type managementError struct {
	Error string `json:"error"`
}

func manageError(ctx *fasthttp.RequestCtx, code int, text string) {
	answerJSON(ctx, code, managementError{text})
}

func (l *Listener) manageHealth(ctx *fasthttp.RequestCtx) {
	answerJSON(ctx, fasthttp.StatusOK, l.Status())
}

// levels are the names of the levels, as Python's logging has them.
var levels = []struct {
	name  string
	level slog.Level
}{
	{"DEBUG", slog.LevelDebug}, {"INFO", slog.LevelInfo}, {"WARNING", slog.LevelWarn}, {"ERROR", slog.LevelError}, {"CRITICAL", slog.LevelError + 4},
}

func (l *Listener) manageLogLevel(ctx *fasthttp.RequestCtx) {
	var q struct{ Level string }
	if !readManagement(ctx, &q) {
		return
	}
	name := strings.ToUpper(strings.TrimSpace(q.Level))
	var names []string
	for _, x := range levels {
		names = append(names, x.name)
		if x.name != name {
			continue
		}
		if l.opts.Level == nil {
			manageError(ctx, fasthttp.StatusBadRequest, "The log level cannot be changed")
			return
		}
		l.opts.Level.Set(x.level)
		answerJSON(ctx, fasthttp.StatusOK, struct {
			Success bool   `json:"success"`
			Level   string `json:"level"`
		}{true, name})
		return
	}
	manageError(ctx, fasthttp.StatusBadRequest, "Invalid level. Must be one of: "+strings.Join(names, ", "))
}

// readManagement reads the body, or answers what is wrong with it.
func readManagement(ctx *fasthttp.RequestCtx, into any) bool {
	if err := json.Unmarshal(ctx.Request.Body(), into); err != nil {
		manageError(ctx, fasthttp.StatusBadRequest, "The body is not the expected JSON object: "+err.Error())
		return false
	}
	return true
}

// readURL reads the url of a body.
func readURL(ctx *fasthttp.RequestCtx) (string, bool) {
	var q struct{ URL string }
	if !readManagement(ctx, &q) {
		return "", false
	}
	target := strings.TrimSpace(q.URL)
	if target == "" {
		manageError(ctx, fasthttp.StatusBadRequest, "Missing 'url' parameter")
		return "", false
	}
	return target, true
}

// changed is the answer after a server was added or removed.
type changed struct {
	Success bool   `json:"success"`
	Message string `json:"message"`
	Total   int    `json:"total_servers"`
}

func (l *Listener) manageAdd(ctx *fasthttp.RequestCtx) {
	target, ok := readURL(ctx)
	if !ok {
		return
	}
	server, ok := addedServer(target)
	if !ok {
		manageError(ctx, fasthttp.StatusBadRequest, "Invalid url: http://host:port is expected")
		return
	}
	total, err := l.fleet.add(server)
	switch {
	case errors.Is(err, errNodeExists):
		manageError(ctx, fasthttp.StatusBadRequest, "Server "+target+" already exists")
	case err != nil:
		manageError(ctx, fasthttp.StatusBadRequest, err.Error())
	default:
		answerJSON(ctx, fasthttp.StatusOK, changed{true, "Server " + target + " added successfully", total})
	}
}

// addedServer is a server that only its URL is known of; ok is false for a text
// that is no http or https URL.
func addedServer(target string) (s *config.EVMServer, ok bool) {
	u, err := url.Parse(target)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, false
	}
	return &config.EVMServer{Name: u.Host, Endpoint: target, Enabled: true, Weight: 1}, true
}

func (l *Listener) manageRemove(ctx *fasthttp.RequestCtx) {
	target, ok := readURL(ctx)
	if !ok {
		return
	}
	total, err := l.fleet.remove(target)
	switch {
	case errors.Is(err, errNodeUnknown):
		manageError(ctx, fasthttp.StatusNotFound, "Server "+target+" not found")
	case errors.Is(err, errLastNode):
		manageError(ctx, fasthttp.StatusBadRequest, "Cannot remove the last server")
	default:
		answerJSON(ctx, fasthttp.StatusOK, changed{true, "Server " + target + " removed successfully", total})
	}
}
