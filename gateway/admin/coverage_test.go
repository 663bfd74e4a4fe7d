package admin

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/ship"
	"flotilla/gateway/ship/dial"
	"flotilla/gateway/simulator"
)

// reported is an upstream with a trace log.
func reported(online bool, begin, end uint32) fleet.Upstream {
	return fleet.Upstream{
		Server: &config.Server{Role: config.Live}, Known: true, Online: online, Trace: ship.Range{Begin: begin, End: end},
	}
}

func disabled(u fleet.Upstream) fleet.Upstream {
	u.Disabled = true
	return u
}

func TestCover(t *testing.T) {
	type ranges = []ship.Range
	for _, c := range []struct {
		name      string
		upstreams []fleet.Upstream
		want      logCoverage
	}{
		{"nobody", nil, logCoverage{}},
		{"never reported", []fleet.Upstream{{Server: &config.Server{}}}, logCoverage{}},
		{"no such log", []fleet.Upstream{reported(true, 0, 0)}, logCoverage{}},
		{"one, up to the head", []fleet.Upstream{reported(true, 5, 90)}, logCoverage{
			reported: ship.Range{Begin: 5, End: 101},
			segments: []segment{{ship.Range{Begin: 5, End: 101}, []int{0}}},
		}},
		{"one is down", []fleet.Upstream{reported(true, 50, 101), reported(false, 5, 101)}, logCoverage{
			reported: ship.Range{Begin: 5, End: 101}, offlineOnly: ranges{{Begin: 5, End: 50}},
			segments: []segment{{ship.Range{Begin: 5, End: 50}, []int{1}}, {ship.Range{Begin: 50, End: 101}, []int{0, 1}}},
		}},
		{"down ones touch", []fleet.Upstream{reported(false, 5, 101), reported(false, 20, 101), disabled(reported(true, 30, 101)), reported(true, 70, 101)}, logCoverage{
			reported: ship.Range{Begin: 5, End: 101}, offlineOnly: ranges{{Begin: 5, End: 70}},
			segments: []segment{
				{ship.Range{Begin: 5, End: 20}, []int{0}}, {ship.Range{Begin: 20, End: 30}, []int{0, 1}},
				{ship.Range{Begin: 30, End: 70}, []int{0, 1, 2}}, {ship.Range{Begin: 70, End: 101}, []int{0, 1, 2, 3}},
			},
		}},
		{"one claims more than the fleet's head", []fleet.Upstream{reported(true, 5, 101), reported(false, 5, 111)}, logCoverage{
			reported: ship.Range{Begin: 5, End: 101},
			segments: []segment{{ship.Range{Begin: 5, End: 101}, []int{0, 1}}},
		}},
		{"all down", []fleet.Upstream{reported(false, 5, 101)}, logCoverage{
			reported: ship.Range{Begin: 5, End: 101}, offlineOnly: ranges{{Begin: 5, End: 101}},
			segments: []segment{{ship.Range{Begin: 5, End: 101}, []int{0}}},
		}},
	} {
		if got := cover(&fleet.View{Upstreams: c.upstreams}, fleet.Trace, 100); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: it is %+v, %+v was due", c.name, got, c.want)
		}
	}
}

func TestGaps(t *testing.T) {
	got := gaps([]ship.Range{{Begin: 1, End: 5}, {Begin: 7, End: 9}, {Begin: 20, End: 30}})
	if want := []ship.Range{{Begin: 5, End: 7}, {Begin: 9, End: 20}}; !reflect.DeepEqual(got, want) {
		t.Errorf("the gaps are %v, %v was due", got, want)
	}
	if got := gaps([]ship.Range{{Begin: 1, End: 5}}); got != nil {
		t.Errorf("one range has the gaps %v", got)
	}
}

// sameJSON compares without regard to the order of keys.
func sameJSON(t *testing.T, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("%v in %s", err, got)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%v in %s", err, want)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("it is\n%s\nbut this was due:\n%s", got, want)
	}
}

const emptyLogs = `{
	"trace":{"reported":{"begin":0,"end":0},"gaps":[],"offline_only":[],"segments":[]},
	"chain_state":{"reported":{"begin":0,"end":0},"gaps":[],"offline_only":[],"segments":[]},
	"finality":{"reported":{"begin":0,"end":0},"gaps":[],"offline_only":[],"segments":[]}}`

func TestCoverageOfAnEmptyPool(t *testing.T) {
	s := serving(State{Listeners: []Listener{pool("default", down("a"))}, Single: true, ReloadOK: true})
	r := request(s, "GET", "/coverage")
	if got := r.Header.Get("Content-Type"); got != "application/json" || r.StatusCode != 200 {
		t.Errorf("it is %d %s", r.StatusCode, got)
	}
	text := body(t, r)
	if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
		t.Errorf("it is not one line: %q", text)
	}
	sameJSON(t, text, `{"listeners":[{"name":null,"topology":"pool","generation":1,"head":null,"lib":null,
		"chain_id":null,"status_ready":false,"frozen_unreported":0,"abi":null,"chain_api":null,"logs":`+emptyLogs+`}]}`)
	if code, named := get(t, s, "/coverage/default"); code != 200 || named != text {
		t.Errorf("under its name it is %d %s", code, named)
	}
	if code, text := get(t, s, "/coverage/eos"); code != 404 || text != "not found\n" {
		t.Errorf("another name is %d %q", code, text)
	}
}

func TestCoverageOfListeners(t *testing.T) {
	chain := simulator.NewChain(simulator.ChainOptions{Head: 100, LIBLag: 10})
	a := node(t, chain, simulator.Options{TraceBegin: 50, FinalityBegin: simulator.NoLog})
	b := node(t, chain, simulator.Options{TraceBegin: 10, FinalityBegin: simulator.NoLog})
	eos := running(t, "eos", server("a", a.Addr()), server("b", b.Addr()))
	wax := pool("wax", down("c"))
	wax.Config.ChainID = &[32]byte{1, 2}
	wax.Fleet = fleet.New(wax.Config, &dial.Dialer{}, quiet)
	await(t, eos.Fleet, 2)
	eos.Fleet.SetDisabled(0, true)
	if i := eos.Fleet.Reserve(func() int { return 1 }); i != 1 {
		t.Fatalf("upstream %d was reserved", i)
	}
	b.Kill()
	await(t, eos.Fleet, 0)

	head, lib := chain.Head(), chain.LIB()
	v := eos.Fleet.View()
	upA := `{"server":"a","role":"live","online":true,"sessions":0,"operator_disabled":true}`
	upB := `{"server":"b","role":"live","online":false,"sessions":1}`
	wantEOS := fmt.Sprintf(`{"name":"eos","topology":"pool","generation":%d,"head":{"num":100,"id":"%s"},"lib":{"num":90,"id":"%s"},
		"chain_id":"%s","status_ready":true,"frozen_unreported":0,"abi":null,"chain_api":null,"logs":{
		"trace":{"reported":{"begin":10,"end":101},"gaps":[],"offline_only":[{"begin":10,"end":101}],"segments":[
			{"begin":10,"end":50,"upstreams":[%s]},{"begin":50,"end":101,"upstreams":[%s,%s]}]},
		"chain_state":{"reported":{"begin":1,"end":101},"gaps":[],"offline_only":[{"begin":1,"end":101}],"segments":[
			{"begin":1,"end":101,"upstreams":[%s,%s]}]},
		"finality":{"reported":{"begin":0,"end":0},"gaps":[],"offline_only":[],"segments":[]}}}`,
		v.Generation, head.ID, lib.ID, chain.ID(), upB, upA, upB, upA, upB)
	wantWAX := `{"name":"wax","topology":"pool","generation":1,"head":null,"lib":null,"chain_id":"0102` + strings.Repeat("0", 60) + `",
		"status_ready":false,"frozen_unreported":0,"abi":null,"chain_api":null,"logs":` + emptyLogs + `}`

	s := serving(State{Listeners: []Listener{eos, wax}, ReloadOK: true})
	for path, want := range map[string]string{
		"/coverage":     wantEOS + "," + wantWAX,
		"/coverage/eos": wantEOS, "/coverage/%65os": wantEOS, "/coverage/wax?x=y": wantWAX,
	} {
		code, got := get(t, s, path)
		if code != 200 {
			t.Errorf("%s is %d", path, code)
		}
		sameJSON(t, got, `{"listeners":[`+want+`]}`)
	}
	if code, text := get(t, s, "/coverage/default"); code != 404 || text != "not found\n" {
		t.Errorf("an unknown name is %d %q", code, text)
	}
}
