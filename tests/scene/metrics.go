package scene

import (
	"net/http"

	"flotilla/gateway/config"
	"flotilla/gateway/simulator"
)

// AdminAddress is where Metric looks for the admin port.
const AdminAddress = "gateway:9090"

// OpenAdmin has the gateway open its admin port. Call it before Start.
func (w *World) OpenAdmin() { w.Admin = &config.Admin{Address: AdminAddress} }

// Metric is the sum of all series of a metric that have these labels, each
// written as name="value"; 0 when there is none.
func (w *World) Metric(name string, labels ...string) float64 {
	w.T.Helper()
	c := http.Client{Transport: &http.Transport{DialContext: w.Net.DialContext, DisableKeepAlives: true}}
	resp, err := c.Get("http://" + AdminAddress + "/metrics")
	if err != nil {
		w.T.Fatalf("read the metrics: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	sum, err := simulator.SumMetric(resp.Body, name, labels...)
	if err != nil {
		w.T.Fatalf("read the metrics: %v", err)
	}
	return sum
}
