package agent

import (
	"context"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/localstorage"
	"github.com/a4s-io/a4s/internal/component"
)

// startVolumes starts what makes and removes the local volumes of the node.
func startVolumes(ctx context.Context, group *component.Group, a *access) error {
	config, _, err := a.clients(localstorage.Name)
	if err != nil {
		return err
	}
	group.Start(ctx,
		localstorage.New(localstorage.Options{Config: config, Log: logrus.WithField("component", localstorage.Name)}))
	return nil
}
