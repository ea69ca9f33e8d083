package process

import (
	"context"
	"os"
	"strconv"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent"
	"github.com/a4s-io/a4s/agent/host"
	"github.com/a4s-io/a4s/agent/kubelet/settings"
	"github.com/a4s-io/a4s/agent/nodechild"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/logging"
)

// prepareNode is the server's side of its node: it refuses what the node would
// refuse, and watches over it.
func (p *process) prepareNode(ctx context.Context, cfg *config.Agent) (*nodechild.Node, error) {
	if _, err := agent.Prepare(ctx, cfg, p.addr); err != nil {
		return nil, err
	}
	own := *cfg
	own.WithNodeID = false // it is in the name
	own.LogFile = ""       // the server writes it
	node := nodechild.New(nodechild.Options{
		Setup:   nodechild.Setup{Config: own, Addr: p.addr},
		Lock:    p.lock,
		Output:  logrus.StandardLogger().Out,
		Started: protectFromOOM,
		Log:     logrus.WithField("component", nodechild.Name),
	})
	p.monitor.Add("components of the node", health.Components(node.States, explained()))
	p.monitor.Add("node", health.Of(node.Report))
	p.monitor.AddMetrics(health.ComponentMetrics(node.States))
	return node, nil
}

// protectFromOOM gives the server the score that the kubelet gives to its own
// process. It comes after the start of the node, which passes its score on.
func protectFromOOM() {
	info, err := host.Probe()
	if err != nil || !info.CanLowerOOMScore {
		return
	}
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(settings.OOMScore)), 0); err != nil {
		logrus.WithError(err).Warn("Cannot keep the kernel from ending a4s first when memory is short")
	}
}

// RunNode is the node of a server, which tells it what to do.
func RunNode(ctx context.Context) error {
	handover, err := nodechild.Receive(os.Stdin)
	if err != nil {
		return err
	}
	cfg := &handover.Setup.Config
	log, err := logging.Setup(logging.Options{Debug: cfg.Debug, Verbosity: cfg.Verbosity, VModule: cfg.VModule})
	if err != nil {
		return err
	}
	setUpstreamGlobals()
	group := component.NewGroup(logrus.NewEntry(logrus.StandardLogger()))
	defer func() {
		log.Stopping()
		if err := group.StopBy(time.Now().Add(nodeStopsWithin - time.Second)); err != nil {
			logrus.WithError(err).Warn("Not everything of the node stopped in time")
		}
	}()
	monitor := health.NewMonitor(health.Options{
		Socket: nodechild.Socket(),
		States: group.States,
		Silent: true,
		Log:    logrus.WithField("component", health.Name),
	})
	monitor.AddMetrics(health.ComponentMetrics(group.States))
	if err := startNode(ctx, handover, group, monitor); err != nil {
		if ctx.Err() != nil {
			return nil // asked to end during the start
		}
		return err
	}
	monitor.Started()
	select {
	case <-ctx.Done():
		return nil
	case err := <-group.Failed():
		return err
	}
}

func startNode(
	ctx context.Context, handover *nodechild.Handover, group *component.Group, monitor *health.Monitor,
) error {
	node, err := agent.Prepare(ctx, &handover.Setup.Config, handover.Setup.Addr)
	if err != nil {
		return err
	}
	node.Health(monitor, false)
	if err := group.StartAndWait(ctx, monitor.Component()); err != nil {
		return err
	}
	if err := node.StartRuntime(ctx, group); err != nil {
		return err
	}
	if err := node.ImportImages(ctx, group); err != nil {
		return err
	}
	server, err := handover.Server(ctx)
	if err != nil {
		return err
	}
	return node.Join(ctx, group, []string{server.URL}, server.Token)
}
