package admin

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"flotilla/gateway/fleet"
)

// Control is who may change what runs, by the control API (spec "observability"
// 5). Its changes last until the process ends or a configuration undoes them.
type Control struct {
	// Token is what a caller has to show; empty when control is off.
	Token string
	// AllowedHosts are host names that requests may be for, beside IP addresses
	// and localhost.
	AllowedHosts []string
}

// controlPrefix is the path of what is about one upstream:
// /api/v1/listeners/NAME/upstreams/ENDPOINT, and an action behind it.
const controlPrefix = "/api/v1/"

// maxControl bounds the body of a control request.
const maxControl = 64 << 10

// controlRoute is a request about one upstream.
type controlRoute struct {
	listener, endpoint, action string
}

// parseControl reads the path of a control request.
func parseControl(escaped string) (controlRoute, bool) {
	parts := strings.Split(strings.TrimPrefix(escaped, controlPrefix), "/")
	for i := range parts {
		text, err := url.PathUnescape(parts[i])
		if err != nil {
			return controlRoute{}, false
		}
		parts[i] = text
	}
	if len(parts) < 4 || len(parts) > 5 || parts[0] != "listeners" || parts[2] != "upstreams" {
		return controlRoute{}, false
	}
	r := controlRoute{listener: parts[1], endpoint: parts[3]}
	if len(parts) == 5 {
		r.action = parts[4]
		if !slices.Contains([]string{"disable", "drain", "enable", "reset"}, r.action) {
			return r, false
		}
	}
	return r, true
}

// control answers a request below /api/v1. allow is the method that it should
// have had, when it had another one.
func (s *Server) control(st *State, r *http.Request) (a answer, allow string) {
	route, ok := parseControl(r.URL.EscapedPath())
	if st.Control == nil || !ok {
		return problem(http.StatusNotFound, "not found"), ""
	}
	if !hostAllowed(r.Host, st.Control.AllowedHosts) {
		return line(http.StatusForbidden, "this host is not allowed; dashboard.allowed_hosts lists those that are"), ""
	}
	method := http.MethodPost
	if route.action == "" {
		method = http.MethodPatch
	}
	if r.Method != method {
		return line(http.StatusMethodNotAllowed, "method not allowed"), method
	}
	if st.Control.Token == "" {
		return problem(http.StatusForbidden, "control is off: no control token is configured"), ""
	}
	shown, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if subtle.ConstantTimeCompare([]byte(shown), []byte(st.Control.Token)) != 1 {
		return problem(http.StatusUnauthorized, "a valid bearer token is needed"), ""
	}
	l := st.listener(route.listener)
	if l == nil {
		return problem(http.StatusNotFound, fmt.Sprintf("unknown listener '%s'", route.listener)), ""
	}
	i := slices.IndexFunc(l.Fleet.View().Upstreams, func(u fleet.Upstream) bool {
		return !u.Removed && u.Server.Endpoint == route.endpoint
	})
	if i < 0 {
		return problem(http.StatusNotFound, fmt.Sprintf("unknown upstream '%s' on listener '%s'", route.endpoint, route.listener)), ""
	}
	if err := act(l.Fleet, i, route.action, r); err != nil {
		return problem(http.StatusBadRequest, err.Error()), ""
	}
	if l.ChainAPI != nil {
		l.ChainAPI.Follow()
	}
	u := &l.Fleet.View().Upstreams[i]
	s.log.Info("control: an operator changed an upstream", "listener", route.listener, "server", u.Server.Name, "action", route.action,
		"disabled", u.Disabled, "priority", u.Server.Priority, "weight", u.Server.Weight, "client", r.RemoteAddr)
	body, err := json.Marshal(controlUpstream{
		Listener: route.listener, Endpoint: u.Server.Endpoint, Name: u.Server.Name, Online: u.Online, Stale: u.Stale,
		OperatorDisabled: u.Disabled, Priority: u.Server.Priority, Weight: u.Server.Weight,
	})
	if err != nil {
		return problem(http.StatusInternalServerError, err.Error()), ""
	}
	return answer{http.StatusOK, jsonText, body}, ""
}

// controlUpstream is an upstream after a change. Only the fields of the peer's
// object that the control of an upstream is about are there.
type controlUpstream struct {
	Listener         string `json:"listener"`
	Endpoint         string `json:"endpoint"`
	Name             string `json:"name"`
	Online           bool   `json:"online"`
	Stale            bool   `json:"stale"`
	OperatorDisabled bool   `json:"operator_disabled"`
	Priority         uint32 `json:"priority"`
	Weight           uint32 `json:"weight"`
}

// act does what a request asks for with upstream i.
func act(f *fleet.Fleet, i int, action string, r *http.Request) error {
	switch action {
	case "disable", "drain":
		f.SetDisabled(i, true)
	case "enable":
		f.SetDisabled(i, false)
	case "reset":
		f.Reset(i)
	default:
		return override(f, i, r)
	}
	return nil
}

// override takes a priority, a weight, or both.
func override(f *fleet.Fleet, i int, r *http.Request) error {
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(kind) != jsonText {
		return errors.New("the body has to be application/json")
	}
	var change struct {
		Priority *uint32 `json:"priority"`
		Weight   *uint32 `json:"weight"`
	}
	d := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxControl))
	d.DisallowUnknownFields()
	if err := d.Decode(&change); err != nil {
		return fmt.Errorf("the body cannot be read: %w", err)
	}
	switch {
	case change.Priority == nil && change.Weight == nil:
		return errors.New("neither priority nor weight is given")
	case change.Weight != nil && *change.Weight == 0:
		return errors.New("weight has to be at least 1")
	}
	f.Override(i, change.Priority, change.Weight)
	return nil
}

// hostAllowed reports whether a request was made for a name that is ours, so
// that no page elsewhere can have a browser make it.
func hostAllowed(host string, allowed []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if _, err := netip.ParseAddr(host); err == nil || host == "" || host == "localhost" {
		return true
	}
	return slices.Contains(allowed, host)
}

// problem is an error of the control API.
func problem(code int, text string) answer {
	body, err := json.Marshal(map[string]string{"error": text})
	if err != nil { // a string always can be written
		body = nil
	}
	return answer{code, jsonText, body}
}
