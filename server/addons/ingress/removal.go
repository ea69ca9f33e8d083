package ingress

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/component"
)

// Removal takes back once, where Ingresses are turned off, what the Leader wrote: addresses that
// take no requests any more, the class that would be the default of new Ingresses, who has which host, and the status
// of Gateways and routes.
func Removal(o Options) component.Component {
	o = o.withDefaults()
	w := writer{o.Writer, o.Log}
	return component.Component{Name: Name + "-removal", Run: func(ctx context.Context, ready func()) error {
		err := errors.Join(w.takeBack(ctx), w.takeBackGateways(ctx, o.Objects))
		if err != nil && ctx.Err() == nil {
			return err
		}
		ready()
		<-ctx.Done()
		return nil
	}}
}

func (w writer) takeBack(ctx context.Context) error {
	classes, err := w.client.NetworkingV1().IngressClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing IngressClasses: %w", err)
	}
	ours := map[string]bool{}
	for i := range classes.Items {
		if classes.Items[i].Spec.Controller == ControllerName {
			ours[classes.Items[i].Name] = true
		}
	}
	if len(ours) == 0 {
		return nil
	}
	ingresses, err := w.client.NetworkingV1().Ingresses("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing Ingresses: %w", err)
	}
	var errs []error
	for i := range ingresses.Items {
		if ingress := &ingresses.Items[i]; isOf(ours, ingress) {
			errs = append(errs, w.writeStatus(ctx, ingress, nil))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	gone := func(what string, err error) error {
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("deleting %s: %w", what, err)
	}
	if err := gone("which spaces have hosts", w.client.CoreV1().ConfigMaps(claimsNamespace).
		DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: claimsLabel})); err != nil {
		return err
	}
	if !ours[ClassName] {
		return nil
	}
	// It is the last one, as without it nothing here is known to be ours.
	return gone("the IngressClass", w.client.NetworkingV1().IngressClasses().
		Delete(ctx, ClassName, metav1.DeleteOptions{}))
}
