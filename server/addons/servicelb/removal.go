package servicelb

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cloud-provider/service/helpers"

	"github.com/a4s-io/a4s/internal/component"
)

// NewRemoval returns what takes back once, where the load balancer is turned
// off, what it gave: addresses of nodes would go on catching traffic, and with
// the finalizer no such Service could be deleted.
func NewRemoval(o Options) component.Component {
	return component.Component{Name: Name + "-removal", Run: func(ctx context.Context, ready func()) error {
		if err := o.takeBack(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		ready()
		<-ctx.Done()
		return nil
	}}
}

func (o Options) takeBack(ctx context.Context) error {
	services, err := o.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing Services: %w", err)
	}
	nodes, err := o.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	ours := map[string]bool{}
	for _, node := range nodes.Items {
		for _, a := range node.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil {
				ours[ip.String()] = true
			}
		}
	}
	var errs []error
	for i := range services.Items {
		service := &services.Items[i]
		// What has other addresses is somebody else's.
		if !helpers.HasLBFinalizer(service) || service.Spec.LoadBalancerClass != nil ||
			slices.ContainsFunc(service.Status.LoadBalancer.Ingress,
				func(i corev1.LoadBalancerIngress) bool { return !ours[i.IP] }) {
			continue
		}
		updated := service.DeepCopy()
		updated.Status.LoadBalancer = corev1.LoadBalancerStatus{}
		if updated, err = helpers.PatchService(o.Client.CoreV1(), service, updated); err != nil {
			errs = append(errs, fmt.Errorf("service %s/%s: %w", service.Namespace, service.Name, err))
			continue
		}
		without := updated.DeepCopy()
		without.Finalizers = slices.DeleteFunc(without.Finalizers, func(f string) bool {
			return f == helpers.LoadBalancerCleanupFinalizer
		})
		if _, err = helpers.PatchService(o.Client.CoreV1(), updated, without); err != nil {
			errs = append(errs, fmt.Errorf("service %s/%s: %w", service.Namespace, service.Name, err))
		}
	}
	return errors.Join(errs...)
}
