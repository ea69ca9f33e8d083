package aggregation

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	rbacinformers "k8s.io/client-go/informers/rbac/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// Controller is the name of the controller that the controller manager must
// not run besides this one.
const Controller = "clusterrole-aggregation-controller"

// workers is as many as upstream's controller manager gives it.
const workers = 5

// everything is the selector of the instance for tenants, which needs the roles that
// all spaces share as well.
const everything = ""

// New returns the supervised pair of controllers. cfg may change any role. The
// roles they keep share what they say in the pool.
func New(cfg *rest.Config, pool *interning.Pool) component.Component {
	return component.Component{Name: Controller, Run: func(ctx context.Context, ready func()) error {
		client, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(cfg), Controller))
		if err != nil {
			return fmt.Errorf("making the client of the %s: %w", Controller, err)
		}
		ctx, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		for _, selector := range []string{"!" + space.Label, everything} {
			factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
				informers.WithTransform(pool.Transform), informers.WithTweakListOptions(func(o *metav1.ListOptions) {
					o.LabelSelector = selector
				}))
			var from rbacinformers.ClusterRoleInformer = factory.Rbac().V1().ClusterRoles()
			if selector == everything {
				if from, err = newRoles(from); err != nil {
					return err
				}
			}
			controller := clusterroleaggregation.NewClusterRoleAggregation(from, client.RbacV1())
			factory.Start(ctx.Done())
			running.Go(func() { controller.Run(ctx, workers) })
		}
		ready()
		<-ctx.Done()
		return nil
	}}
}
