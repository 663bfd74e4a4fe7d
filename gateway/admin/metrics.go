package admin

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// kind is the TYPE of a metric family.
type kind string

const (
	gauge     kind = "gauge"
	counter   kind = "counter"
	histogram kind = "histogram"
)

// family is one metric family: what its # HELP and # TYPE lines say, and the
// labels that its series have beside those of what they are about.
type family struct {
	name   string
	kind   kind
	help   string
	labels []string
}

// metric is a family with its reader: read hands the present values of one
// subject, an upstream for example, to the sink. It may hand over none.
type metric[T any] struct {
	family
	read func(subject T, to sink)
}

// The labels that tell what a series is about. In single mode the listener is
// left out.
var (
	listenerLabels = []string{"listener"}
	upstreamLabels = []string{"listener", "endpoint", "server"}
)

// sink takes the series of one family about one subject.
type sink struct {
	out    chan<- prometheus.Metric
	desc   *prometheus.Desc
	kind   kind
	labels []string // values of the labels of the subject
}

// value adds a series; extra are the values of the family's own labels.
func (s sink) value(v float64, extra ...string) {
	valueType := prometheus.GaugeValue
	if s.kind == counter {
		valueType = prometheus.CounterValue
	}
	m, err := prometheus.NewConstMetric(s.desc, valueType, v, slices.Concat(s.labels, extra)...)
	s.add(m, err)
}

// histogram adds what h has observed.
func (s sink) histogram(h prometheus.Metric, extra ...string) {
	var now dto.Metric
	if err := h.Write(&now); err != nil {
		s.add(nil, err)
		return
	}
	buckets := map[float64]uint64{}
	for _, b := range now.GetHistogram().GetBucket() {
		buckets[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	m, err := prometheus.NewConstHistogram(s.desc, now.GetHistogram().GetSampleCount(), now.GetHistogram().GetSampleSum(), buckets, slices.Concat(s.labels, extra)...)
	s.add(m, err)
}

func (s sink) add(m prometheus.Metric, err error) {
	if err != nil {
		m = prometheus.NewInvalidMetric(s.desc, err)
	}
	s.out <- m
}

// collect reads every family about one subject.
func collect[T any](out chan<- prometheus.Metric, metrics []metric[T], subject T, names, values []string) {
	for _, m := range metrics {
		desc := prometheus.NewDesc(m.name, m.help, slices.Concat(names, m.labels), nil)
		m.read(subject, sink{out, desc, m.kind, values})
	}
}

// collector reads the fleets when it is scraped, so that nothing is counted
// twice and a reload needs no registration.
type collector struct {
	state func() *State
	build [2]string // version and commit
}

// Describe says nothing: the labels depend on the mode, which a reload may
// change.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads all series of the moment.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	st := c.state()
	now := time.Now()
	collect(out, processMetrics, process{st, c.build}, nil, nil)
	collectEVM(out, st, now)
	for i := range st.Listeners {
		l := newListenerSubject(&st.Listeners[i])
		name := []string{l.Config.Name}
		names, upstreamNames := listenerLabels, upstreamLabels
		if st.Single {
			name, names, upstreamNames = nil, nil, upstreamLabels[1:]
		}
		collect(out, listenerMetrics, l, names, name)
		collect(out, listenerCertificateMetrics, l, names, name)
		collect(out, policyMetrics, l.Policy, names, name)
		for j := range l.view.Upstreams {
			u := upstreamSubject{&l.view.Upstreams[j], l.view, j, now}
			if u.Removed {
				continue
			}
			collect(out, upstreamMetrics, u, upstreamNames, slices.Concat(name, []string{u.Server.Endpoint, u.Server.Name}))
		}
		if l.ChainAPI == nil {
			continue
		}
		collect(out, apiMetrics, l.ChainAPI, names, name)
		collect(out, apiCertificateMetrics, l, names, name)
		apis := l.ChainAPI.View().APIs
		for j := range apis {
			a := &apis[j]
			collect(out, apiUpstreamMetrics, a, upstreamNames, slices.Concat(name, []string{a.Server.Endpoint, a.Server.Name}))
		}
	}
}

func newRegistry(state func() *State, version, commit string) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		&collector{state, [2]string{version, commit}},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return r
}

// declared are our own families by name. Each has HELP and TYPE lines in every
// scrape, with or without a series; those of chain APIs only when there is one.
func declared(chainAPI bool) []family {
	var all []family
	for _, m := range processMetrics {
		all = append(all, m.family)
	}
	for _, m := range slices.Concat(listenerMetrics, listenerCertificateMetrics) {
		all = append(all, m.family)
	}
	for _, m := range policyMetrics {
		all = append(all, m.family)
	}
	for _, m := range upstreamMetrics {
		all = append(all, m.family)
	}
	if chainAPI {
		for _, m := range apiMetrics {
			all = append(all, m.family)
		}
		for _, m := range apiCertificateMetrics {
			all = append(all, m.family)
		}
		for _, m := range apiUpstreamMetrics {
			all = append(all, m.family)
		}
	}
	for _, m := range slices.Concat(evmMetrics, evmCertificateMetrics) {
		all = append(all, m.family)
	}
	for _, m := range evmNodeMetrics {
		all = append(all, m.family)
	}
	slices.SortFunc(all, func(a, b family) int { return cmp.Compare(a.name, b.name) })
	return all
}

// metrics is the text exposition. Series that cannot be told apart are left
// out and logged, as the rest is worth having.
func (s *Server) metrics(st *State, _ *http.Request) answer {
	gathered, err := s.registry.Gather()
	if err != nil {
		s.log.Warn("some metrics are missing from a scrape", "error", err)
	}
	var text bytes.Buffer
	present := map[string]bool{}
	for _, f := range gathered {
		present[f.GetName()] = true
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			s.log.Warn("a metric is missing from a scrape", "metric", f.GetName(), "error", err)
		}
	}
	// The encoder refuses families without a series.
	for _, f := range declared(st.servesAPI()) {
		if !present[f.name] {
			fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
		}
	}
	return answer{http.StatusOK, metricsText, text.Bytes()}
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
