package probe

import (
	"testing"

	"flotilla/gateway/config"
)

func TestUnserved(t *testing.T) {
	archive := func(begin, end uint32, api string) *Server {
		return &Server{Server: &config.Server{Role: config.Frozen, Enabled: true, Range: &config.Range{Begin: begin, End: end}, APIEndpoint: api}}
	}
	for want, servers := range map[string][]*Server{
		"-":               {archive(2, 100, "a"), archive(100, 200, "b")},
		"[2,100)":         {archive(2, 100, ""), archive(100, 200, "b")},
		"[2,10) [50,100)": {archive(2, 100, ""), archive(10, 50, "b")},
		"[100,200)":       {archive(2, 100, "a"), archive(50, 200, "")},
		"[2,9)":           {archive(2, 9, ""), {Server: &config.Server{Role: config.Live, Enabled: true, APIEndpoint: "l"}}},
	} {
		l := &Listener{Listener: &config.Listener{ChainAPI: &config.ChainAPI{}}, Servers: servers}
		if got := RangesText(l.Unserved()); got != want {
			t.Errorf("%s are unserved, not %s", got, want)
		}
		l.ChainAPI = nil
		if got := RangesText(l.Unserved()); got != "-" {
			t.Errorf("without a chain API %s are unserved", got)
		}
	}
}
