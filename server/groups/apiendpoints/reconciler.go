package apiendpoints

//lint:file-ignore SA1019 Endpoints are deprecated, and the seed has the groups in them

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

const (
	// Interval is how often Reconcile has to be called.
	Interval = 3 * time.Second
	// patience bounds one call.
	patience = 2 * Interval
	// service is what the endpoints are of.
	service = "kubernetes"
)

// Reconciler keeps the endpoints of the API in place of upstream's, from whose
// controller it is called.
type Reconciler struct {
	group   string
	client  kubernetes.Interface
	leases  leases
	destroy func()

	stopped atomic.Bool
	mu      sync.Mutex
}

// New returns the reconciler of a server of a group. client has all rights, and config
// is where the leases of servers are.
func New(group string, client *restclient.Config, config *storagebackend.ConfigForResource) (*Reconciler, error) {
	own, err := newClient(client)
	if err != nil {
		return nil, err
	}
	leases, destroy, err := newStored(config)
	if err != nil {
		return nil, err
	}
	return &Reconciler{group: group, client: own, leases: leases, destroy: sync.OnceFunc(destroy)}, nil
}

func newClient(config *restclient.Config) (kubernetes.Interface, error) {
	own := restclient.AddUserAgent(restclient.CopyConfig(config), "api-endpoints")
	own.WarningHandler = restclient.NoWarnings{} // that Endpoints are old
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("making the client for the endpoints of the API: %w", err)
	}
	return client, nil
}

// ReconcileEndpoints says that this server lives, and takes over what others say.
func (r *Reconciler) ReconcileEndpoints(_ string, ip net.IP, ports []corev1.EndpointPort, _ bool) error {
	if r.stopped.Load() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	own, err := addressOf(ip, ports)
	if err != nil {
		return err
	}
	if err := r.leases.renew(ctx, server{ip: own, group: r.group, port: ports[0].Port}); err != nil {
		return err
	}
	return r.write(ctx, ports[0])
}

// RemoveEndpoints takes this server out.
func (r *Reconciler) RemoveEndpoints(_ string, ip net.IP, ports []corev1.EndpointPort) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	own, err := addressOf(ip, ports)
	if err != nil {
		return err
	}
	if err := r.leases.remove(ctx, own); err != nil {
		return err
	}
	return r.write(ctx, ports[0])
}

func addressOf(ip net.IP, ports []corev1.EndpointPort) (netip.Addr, error) {
	addr, ok := netip.AddrFromSlice(ip)
	if !ok || len(ports) == 0 {
		return addr, fmt.Errorf("%s is no address of an API server, or it has no port", ip)
	}
	return addr.Unmap(), nil
}

// StopReconciling lets RemoveEndpoints do the rest.
func (r *Reconciler) StopReconciling() { r.stopped.Store(true) }

// Destroy ends the connection to the datastore.
func (r *Reconciler) Destroy() { r.destroy() }

// write makes the objects what the leases say.
func (r *Reconciler) write(ctx context.Context, port corev1.EndpointPort) error {
	all, err := r.leases.list(ctx)
	if err != nil {
		return err
	}
	if len(all) == 0 && !r.stopped.Load() {
		return errors.New("no API server has a lease, so the endpoints of the API stay as they are")
	}
	return errors.Join(r.writeEndpoints(ctx, all, port), r.writeSlices(ctx, all, port))
}

func (r *Reconciler) writeEndpoints(ctx context.Context, all []server, port corev1.EndpointPort) error {
	client := r.client.CoreV1().Endpoints(metav1.NamespaceDefault)
	have, err := client.Get(ctx, service, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		made := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: service}}
		correct(made, all, port)
		_, err = client.Create(ctx, made, metav1.CreateOptions{})
	case err == nil && correct(have, all, port):
		_, err = client.Update(ctx, have, metav1.UpdateOptions{})
	}
	return unlessOther(err)
}

// unlessOther forgives that another server was faster: the next look finds out whether
// it did the same.
func unlessOther(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (r *Reconciler) writeSlices(ctx context.Context, all []server, port corev1.EndpointPort) error {
	client := r.client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault)
	found, err := client.List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		return err
	}
	want := endpointSlices(service, all, port)
	var errs []error
	for i := range found.Items {
		have := &found.Items[i]
		w := want[have.Name]
		delete(want, have.Name)
		switch {
		case w == nil && have.Labels[partitionapi.GroupLabel] == "":
			// It is not ours.
		case w == nil:
			errs = append(errs, unlessOther(client.Delete(ctx, have.Name, metav1.DeleteOptions{})))
		case have.AddressType != w.AddressType: // which cannot be changed; the next look makes it
			errs = append(errs, unlessOther(client.Delete(ctx, have.Name, metav1.DeleteOptions{})))
		case !apiequality.Semantic.DeepEqual([]any{have.Labels, have.Ports, have.Endpoints},
			[]any{w.Labels, w.Ports, w.Endpoints}):
			have.Labels, have.Ports, have.Endpoints = w.Labels, w.Ports, w.Endpoints
			_, err := client.Update(ctx, have, metav1.UpdateOptions{})
			errs = append(errs, unlessOther(err))
		}
	}
	for _, w := range want {
		_, err := client.Create(ctx, w, metav1.CreateOptions{})
		errs = append(errs, unlessOther(err))
	}
	return errors.Join(errs...)
}

// Forget removes what servers with groups left, which upstream's reconciler does not
// know of. Those that live write it again.
func Forget(ctx context.Context, config *restclient.Config) error {
	client, err := newClient(config)
	if err != nil {
		return err
	}
	slices := client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault)
	left, err := slices.List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + service + "," + partitionapi.GroupLabel})
	if err != nil {
		return fmt.Errorf("looking for endpoints of service groups: %w", err)
	}
	var errs []error
	for _, s := range left.Items {
		errs = append(errs, unlessOther(slices.Delete(ctx, s.Name, metav1.DeleteOptions{})))
	}
	endpoints := client.CoreV1().Endpoints(metav1.NamespaceDefault)
	have, err := endpoints.Get(ctx, service, metav1.GetOptions{})
	if err == nil && have.Annotations[partitionapi.GroupsAnnotation] != "" {
		// Upstream's reconciler writes at the same moment.
		without := []byte(`{"metadata":{"annotations":{"` + partitionapi.GroupsAnnotation + `":null}}}`)
		_, err = endpoints.Patch(ctx, service, types.MergePatchType, without, metav1.PatchOptions{})
	}
	return errors.Join(append(errs, unlessOther(err))...)
}
