package admin

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"flotilla/gateway/fleet"
	"flotilla/gateway/ship/dial"
	"flotilla/gateway/simulator"
)

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
