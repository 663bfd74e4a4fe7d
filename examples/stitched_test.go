package examples

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"testing"
	"time"

	"flotilla/gateway"
	"flotilla/gateway/config"
	"flotilla/gateway/ship"
	"flotilla/gateway/simulator"
	"flotilla/tests/scene"
)

func load(t *testing.T, file string) *config.Config {
	t.Helper()
	cfg, _, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestTwinsAreTheSame: the HCL file and the fleet-router file say one thing.
func TestTwinsAreTheSame(t *testing.T) {
	hcl, json := load(t, "stitched.hcl"), load(t, "stitched.json")
	hcl.Path, json.Path = "", ""
	if !reflect.DeepEqual(hcl, json) {
		t.Errorf("HCL gives\n%+v\n%+v\nand JSON\n%+v\n%+v", hcl, hcl.Listeners[0], json, json.Listeners[0])
	}
}

// TestStitchedExampleRuns the gateway with each of the twins, in front of
// simulated nodes at the addresses of the file, and reads across both seams
// while one replica of each range and one live node are down.
func TestStitchedExampleRuns(t *testing.T) {
	const seam, snapshot, head = 200_000_001, 400_000_000, 400_000_500
	for _, file := range []string{"stitched.hcl", "stitched.json"} {
		t.Run(file, func(t *testing.T) {
			network := func() gateway.Network { return simulator.NewNetwork() }
			scene.InBubble(t, simulator.ChainOptions{Head: head}, network, func(t *testing.T, w *scene.World) {
				cfg := load(t, file)
				l := cfg.Listeners[0]
				for i, s := range l.Servers {
					o := simulator.Options{Address: s.Endpoint, Listen: w.Net.Listen, Snapshot: snapshot}
					if s.Role == config.Frozen {
						o.First, o.End, o.Snapshot = s.Range.Begin, s.Range.End, 0
					}
					n, err := simulator.Start(w.Chain, o)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(n.Close)
					n.SetChainID(ship.ID(*l.ChainID))
					if i%2 == 1 {
						n.Kill()
					}
				}
				stop := w.Run(cfg, nil)
				defer stop()
				if code, body := get(w, cfg.Admin.Address, "/ready?scope=history"); code != http.StatusOK {
					t.Errorf("it is not ready: %s", body)
				}
				for _, from := range []uint32{seam - 100, snapshot - 99} {
					c := w.DialAt(l.Address, simulator.ClientOptions{AckEvery: 1, CheckPayload: true})
					if err := c.Ask(scene.Everything(from, from+200, 10)); err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithTimeout(w.Ctx, time.Minute)
					if err := c.Wait(ctx, func(r simulator.Report) bool { return r.Blocks == 200 }); err != nil {
						t.Errorf("%v after %d blocks from %d", err, c.Report().Blocks, from)
					}
					cancel()
					w.Clean(c)
					c.Close()
				}
			})
		})
	}
}

// get is a GET of the admin port.
func get(w *scene.World, address, path string) (code int, body string) {
	w.T.Helper()
	c := http.Client{Transport: &http.Transport{DialContext: w.Net.DialContext, DisableKeepAlives: true}}
	r, err := c.Get("http://" + address + path)
	if err != nil {
		w.T.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		w.T.Fatal(err)
	}
	return r.StatusCode, string(text)
}
