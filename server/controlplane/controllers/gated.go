package controllers

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
	"k8s.io/kubernetes/pkg/controller/apis/config"

	"github.com/a4s-io/a4s/server/controlplane/controllers/gate"
)

// gated is a controller in front of which tenants take turns.
type gated struct {
	// controller is its name, queue that of its work queue, and account that of its client.
	controller, queue, account string
	workers                    func(*config.KubeControllerManagerConfiguration) int32
	// flag sets the workers.
	flag string
}

// gatedWorkers is how many workers those have. Upstream's five are few for many tenants: half
// of them is what one tenant gets beside others.
const gatedWorkers = "20"

// allGated are the controllers whose work tenants cause without limit, and which have one queue.
// Those of endpoints have a second one for pods, before the one that could be measured. DaemonSets are
// of the system space, which takes no turns.
func allGated() []gated {
	type all = *config.KubeControllerManagerConfiguration
	return []gated{
		{names.DeploymentController, "deployment", "deployment-controller", func(c all) int32 {
			return c.DeploymentController.ConcurrentDeploymentSyncs
		}, "concurrent-deployment-syncs"},
		{names.ReplicaSetController, "replicaset", "replicaset-controller", func(c all) int32 {
			return c.ReplicaSetController.ConcurrentRSSyncs
		}, "concurrent-replicaset-syncs"},
		{names.ReplicationControllerController, "replicationmanager", "replication-controller", func(c all) int32 {
			return c.ReplicationController.ConcurrentRCSyncs
		}, "concurrent_rc_syncs"},
		{names.StatefulSetController, "statefulset", "statefulset-controller", func(c all) int32 {
			return c.StatefulSetController.ConcurrentStatefulSetSyncs
		}, "concurrent-statefulset-syncs"},
		{names.JobController, "job", "job-controller", func(c all) int32 {
			return c.JobController.ConcurrentJobSyncs
		}, "concurrent-job-syncs"},
		{names.CronJobController, "cronjob", "cronjob-controller", func(c all) int32 {
			return c.CronJobController.ConcurrentCronJobSyncs
		}, "concurrent-cron-job-syncs"},
	}
}

// Gated are the users that the controllers with a gate have.
func Gated() map[string]bool {
	out := map[string]bool{}
	for _, c := range allGated() {
		out[serviceaccount.MakeUsername(metav1.NamespaceSystem, c.account)] = true
	}
	return out
}

// gated makes the controllers that have a gate, and returns the descriptors of all others.
func (m *manager) gated(
	ctx context.Context, cc app.ControllerContext, descriptors map[string]*app.ControllerDescriptor,
) (made []app.Controller, others map[string]*app.ControllerDescriptor, err error) {
	for _, c := range allGated() {
		var own map[string]*app.ControllerDescriptor
		descriptors, own = split(descriptors, []string{c.controller})
		g := gate.New(ctx, int(c.workers(&cc.ComponentConfig)))
		with := cc
		with.InformerFactory, with.ClientBuilder = g.Informers(cc.InformerFactory), g.Clients(cc.ClientBuilder)
		built, err := app.BuildControllers(ctx, with, own, nil, noHealth{})
		if err != nil {
			return nil, nil, fmt.Errorf("building the controllers: %w", err)
		}
		if len(built) == 0 {
			continue // it is not wanted
		}
		q, err := gate.Metered(c.queue)
		if err != nil {
			m.log.WithError(err).WithField("controller", c.controller).
				Warn("Tenants do not take turns in this controller, because its queue cannot be measured: " +
					"do not disable its metrics")
		} else {
			g.Attach(q)
		}
		made = append(made, built...)
	}
	return made, descriptors, nil
}
