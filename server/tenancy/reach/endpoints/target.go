package endpoints

//lint:file-ignore SA1019 Endpoints are deprecated, and tenants still write them

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/server/tenancy/reach/inside"
)

// without writes an object, as it is now, without the addresses.
func (c *controller) without(ctx context.Context, k key, gone map[string]bool) error {
	isGone := func(address string) bool {
		ip, ok := inside.Parse(address)
		return ok && gone[ip.String()]
	}
	var err error
	if k.kind == old {
		err = c.oldWithout(ctx, k, isGone)
	} else {
		err = c.sliceWithout(ctx, k, isGone)
	}
	if err != nil {
		return fmt.Errorf("taking addresses off: %w", err)
	}
	return nil
}

func (c *controller) sliceWithout(ctx context.Context, k key, isGone func(string) bool) error {
	client := c.Client.DiscoveryV1().EndpointSlices(k.namespace)
	o, err := client.Get(ctx, k.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for i := range o.Endpoints {
		o.Endpoints[i].Addresses = slices.DeleteFunc(o.Endpoints[i].Addresses, isGone)
	}
	o.Endpoints = slices.DeleteFunc(o.Endpoints, func(e discoveryv1.Endpoint) bool { return len(e.Addresses) == 0 })
	if _, err = client.Update(ctx, o, metav1.UpdateOptions{}); cannotStay(err) {
		o.Endpoints = nil
		shrink(&o.ObjectMeta)
		_, err = client.Update(ctx, o, metav1.UpdateOptions{})
	}
	return err
}

func (c *controller) oldWithout(ctx context.Context, k key, isGone func(string) bool) error {
	client := c.Client.CoreV1().Endpoints(k.namespace)
	o, err := client.Get(ctx, k.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	at := func(a corev1.EndpointAddress) bool { return isGone(a.IP) }
	for i := range o.Subsets {
		s := &o.Subsets[i]
		s.Addresses, s.NotReadyAddresses = slices.DeleteFunc(s.Addresses, at),
			slices.DeleteFunc(s.NotReadyAddresses, at)
	}
	o.Subsets = slices.DeleteFunc(o.Subsets, func(s corev1.EndpointSubset) bool {
		return len(s.Addresses)+len(s.NotReadyAddresses) == 0
	})
	if _, err = client.Update(ctx, o, metav1.UpdateOptions{}); cannotStay(err) {
		o.Subsets = nil
		shrink(&o.ObjectMeta)
		_, err = client.Update(ctx, o, metav1.UpdateOptions{})
	}
	return err
}

// cannotStay says that an object cannot be written even with less in it: it is
// as large as can be, and who wrote it last is told in it, too. A datastore that
// finds a request too large says so in text alone (500 over the API).
func cannotStay(err error) bool {
	return err != nil && (apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsInvalid(err) ||
		strings.Contains(err.Error(), "too large"))
}

// shrink takes off what can be large.
func shrink(o *metav1.ObjectMeta) {
	o.Annotations = nil
	o.ManagedFields = []metav1.ManagedFieldsEntry{{}} // none at all, by convention
}
