package admin

import "runtime"

// process is the subject of the families that stand for the whole process.
type process struct {
	*State
	build [2]string // version and commit
}

var processMetrics = []metric[process]{
	{family{"fleet_router_up", gauge, "Always 1.", nil},
		func(_ process, to sink) { to.value(1) }},
	{family{"fleet_router_config_last_reload_successful", gauge, "1 unless the newest configuration could not be applied.", nil},
		func(p process, to sink) { to.value(flag(p.ReloadOK)) }},
	{family{"flotilla_config_revision", gauge, "Number of configurations applied since the start.", nil},
		func(p process, to sink) { to.value(float64(p.Revision)) }},
	{family{"flotilla_draining", gauge, "1 from the first moment of a shutdown on.", nil},
		func(p process, to sink) { to.value(flag(p.Draining)) }},
	{family{"flotilla_build_info", gauge, "Always 1; the labels name the build.", []string{"version", "commit", "goversion"}},
		func(p process, to sink) { to.value(1, p.build[0], p.build[1], runtime.Version()) }},
}
