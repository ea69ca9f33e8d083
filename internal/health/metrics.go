package health

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Metrics adds values to what is exported. It is called at each scrape.
type Metrics func(add func(name, help string, value float64, labels map[string]string))

// AddMetrics adds metrics, whose names get the prefix a4s_.
func (m *Monitor) AddMetrics(metrics ...Metrics) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.metrics = append(m.metrics, metrics...)
}

// export puts the metrics into the registry of the process, which the API
// server and the kubelet serve behind their authorization.
func (m *Monitor) export() (end func(), err error) {
	registry := legacyregistry.Registerer()
	c := collector{m}
	err = registry.Register(c)
	if already := (prometheus.AlreadyRegisteredError{}); errors.As(err, &already) {
		// A monitor before this one, in the same process.
		registry.Unregister(already.ExistingCollector)
		err = registry.Register(c)
	}
	if err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return func() { registry.Unregister(c) }, nil
}

type collector struct{ m *Monitor }

// identity is what makes collectors equal: names and values come at a scrape.
func identity() *prometheus.Desc {
	return prometheus.NewDesc("a4s_health_condition", "Whether a condition of the health of this process holds.",
		[]string{"code", "severity"}, nil)
}

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) { ch <- identity() }

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	holds := map[Code]bool{}
	for _, p := range c.m.Problems() {
		holds[p.Code] = true
	}
	for _, condition := range Conditions() {
		value := 0.0
		if holds[condition.Code] {
			value = 1
		}
		ch <- prometheus.MustNewConstMetric(identity(), prometheus.GaugeValue, value, string(condition.Code),
			string(condition.Severity))
	}
	c.m.mu.Lock()
	metrics := append([]Metrics(nil), c.m.metrics...)
	c.m.mu.Unlock()
	for _, collect := range metrics {
		collect(func(name, help string, value float64, labels map[string]string) {
			ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("a4s_"+name, help, nil, labels),
				prometheus.GaugeValue, value)
		})
	}
}
