package agent

import (
	"context"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/runtime/readiness"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/workload"
)

// reportRuntimes tells the cluster which runtimes of the node are ready.
func (n *Node) reportRuntimes(ctx context.Context, group *component.Group) error {
	_, client, err := clients(n.credential(), readiness.Name)
	if err != nil {
		return err
	}
	group.Start(ctx, readiness.New(readiness.Options{
		Client:   client,
		NodeName: n.cfg.NodeName,
		Runtimes: n.runtimes,
		Told:     &n.told,
		Log:      logrus.WithField("component", readiness.Name),
	}))
	return nil
}

// obstacle says why a pod that was placed on this node cannot start here.
func (n *Node) obstacle(t workload.Type, hostNetwork bool) string {
	return readiness.Gate{Runtimes: n.runtimes, Told: &n.told, Grace: n.grace}.Obstacle(t, hostNetwork)
}
