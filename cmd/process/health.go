package process

import (
	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent"
	"github.com/a4s-io/a4s/agent/network/packetfilter"
	"github.com/a4s-io/a4s/cmd/checkconfig"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/instance"
	"github.com/a4s-io/a4s/internal/version"
)

// newMonitor watches over what servers and agents have in common: components,
// disk and clock.
func newMonitor(mode string, cfg *config.Agent, states func() []component.State) *health.Monitor {
	m := health.NewMonitor(health.Options{
		Report: health.Report{Mode: mode, Node: cfg.NodeName, Version: version.Version, DataDir: cfg.DataDir},
		Socket: health.Socket(instance.RunDir),
		Log:    logrus.WithField("component", health.Name),
	})
	m.Add("components", health.Components(states, explained()))
	m.Add("disk", health.Disk(cfg.DataDir))
	m.Add("clock", health.Clock())
	m.AddMetrics(health.ComponentMetrics(states))
	if missing := checkconfig.MissingCgroups(checkconfig.ThisHost(cfg.DataDir)); missing != "" {
		m.Set(health.CgroupMissing, "", missing)
	}
	return m
}

// explained are components that have a condition of their own.
func explained() map[string]health.Code {
	return map[string]health.Code{
		packetfilter.IsolationName: health.IsolationNotEnforced,
		agent.JoinName:             health.ServerUnreachable,
	}
}
