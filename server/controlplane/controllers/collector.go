package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/metadata"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/config"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"

	"github.com/a4s-io/a4s/server/controlplane/owners"
)

const (
	// collectorClient is the name of the collector's account, as upstream's roles
	// have it.
	collectorClient = "generic-garbage-collector"
	// collectorPeriod is how often the collector looks for new kinds; upstream's.
	collectorPeriod = 30 * time.Second
)

// collector is the garbage collector over what it may see. Upstream's maker of it
// makes its clients itself.
func (m *manager) collector(ctx context.Context, cc app.ControllerContext) ([]app.Controller, error) {
	if cc.GraphBuilder == nil {
		return nil, nil // it is not wanted
	}
	client, err := cc.NewClient(collectorClient)
	if err != nil {
		return nil, fmt.Errorf("making the client of the %s: %w", names.GarbageCollectorController, err)
	}
	discovery, err := cc.ClientBuilder.DiscoveryClient(collectorClient)
	if err != nil {
		return nil, fmt.Errorf("making the discovery client of the %s: %w", names.GarbageCollectorController, err)
	}
	config, err := cc.ClientBuilder.Config(collectorClient)
	if err != nil {
		return nil, fmt.Errorf("configuring the client of the %s: %w", names.GarbageCollectorController, err)
	}
	config.QPS *= 2 // as upstream does: each deletion takes two requests
	partial, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the client of the %s: %w", names.GarbageCollectorController, err)
	}
	gc, err := garbagecollector.NewComposedGarbageCollector(ctx, owners.Events(client), m.owners.Client(partial),
		cc.RESTMapper, cc.GraphBuilder)
	if err != nil {
		return nil, fmt.Errorf("making the %s: %w", names.GarbageCollectorController, err)
	}
	workers := int(cc.ComponentConfig.GarbageCollectorController.ConcurrentGCSyncs)
	return []app.Controller{loop{names.GarbageCollectorController, func(ctx context.Context) {
		var running sync.WaitGroup
		defer running.Wait()
		running.Go(func() { gc.Run(ctx, workers, collectorPeriod) })
		running.Go(func() { gc.Sync(ctx, discovery, collectorPeriod) })
	}}}, nil
}

// ofOwners are the controllers that work with the collector's graph.
func ofOwners() []string {
	return []string{names.GarbageCollectorController, names.StorageVersionMigratorController}
}

// beside runs those beside upstream's manager, which would make the collector over
// all that there is, and runs all others. They begin when the others are built.
func (m *manager) beside(
	ctx context.Context, others func(context.Context, *config.CompletedConfig) error, built <-chan struct{},
) error {
	m.root = clientbuilder.SimpleControllerClientBuilder{ClientConfig: m.config.Kubeconfig}
	cc, err := m.context(ctx)
	if err != nil {
		return err
	}
	if cc.GraphBuilder == nil {
		return others(ctx, m.config)
	}
	defer cc.InformerFactory.Shutdown()
	own, err := m.collector(ctx, cc)
	if err != nil {
		return err
	}
	descriptors := app.NewControllerDescriptors()
	maps.DeleteFunc(descriptors, func(name string, _ *app.ControllerDescriptor) bool {
		return name == names.GarbageCollectorController || !slices.Contains(ofOwners(), name)
	})
	more, err := app.BuildControllers(ctx, cc, descriptors, nil, noHealth{})
	if err != nil {
		return fmt.Errorf("building the controllers of owners: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		defer cancel()
		ended <- others(ctx, withoutOwners(m.config))
	}()
	select {
	case <-built:
	case <-ctx.Done():
	}
	cc.InformerFactory.Start(ctx.Done())
	cc.ObjectOrMetadataInformerFactory.Start(ctx.Done())
	close(cc.InformersStarted)
	inTime := app.RunControllers(ctx, cc, append(own, more...), app.ControllerStartJitter,
		m.config.ControllerShutdownTimeout)
	cancel()
	err = <-ended
	if !inTime {
		err = errors.Join(err, errors.New("some controllers of owners did not end in time"))
	}
	return err
}

// withoutOwners are settings for all controllers but those of owners.
func withoutOwners(c *config.CompletedConfig) *config.CompletedConfig {
	without := *c.Config
	selected := &without.ComponentConfig.Generic.Controllers
	var off []string
	for _, name := range ofOwners() {
		off = append(off, "-"+name) // the first that names one counts
	}
	*selected = append(off, *selected...)
	return without.Complete()
}
