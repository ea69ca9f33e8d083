package apiserver

import (
	"fmt"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	restclient "k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
)

// Endpoints is the seam of the endpoints of the API.
type Endpoints struct {
	// New makes what keeps them. client is one of the server itself, with all rights,
	// and leases is where servers say that they live.
	New func(client *restclient.Config, leases *storagebackend.ConfigForResource) (EndpointKeeper, error)
	// Every is how often it is called.
	Every time.Duration
}

// EndpointKeeper is upstream's reconciler, but for the check of the address.
type EndpointKeeper interface {
	// ReconcileEndpoints is called from time to time while the server is ready.
	ReconcileEndpoints(service string, ip net.IP, ports []corev1.EndpointPort, reconcilePorts bool) error
	// RemoveEndpoints is called before the server is ready, and after StopReconciling.
	RemoveEndpoints(service string, ip net.IP, ports []corev1.EndpointPort) error
	StopReconciling()
	// Destroy may be called more than once.
	Destroy()
}

// keeper checks addresses as upstream's does.
type keeper struct{ EndpointKeeper }

// ValidateIP implements reconcilers.EndpointReconciler.
func (keeper) ValidateIP(ip net.IP) error {
	return validation.ValidateEndpointIP(ip.String(), nil).ToAggregate()
}

// applyEndpoints replaces upstream's reconciler, unless the user has chosen one.
func (s Seams) applyEndpoints(c *controlplane.Config) error {
	if s.Endpoints == nil || c.Extra.EndpointReconcilerType != reconcilers.LeaseEndpointReconcilerType {
		return nil
	}
	leases, err := c.ControlPlane.StorageFactory.NewConfig(core.Resource("apiServerIPInfo"), &core.Endpoints{})
	if err != nil {
		return fmt.Errorf("configuring the storage of the leases of API servers: %w", err)
	}
	made, err := s.Endpoints.New(c.ControlPlane.Generic.LoopbackClientConfig, leases)
	if err != nil {
		return err
	}
	c.Extra.EndpointReconcilerConfig = controlplane.EndpointReconcilerConfig{
		Reconciler: keeper{made}, Interval: s.Endpoints.Every}
	// Upstream takes the interval for that of the leases of peers otherwise.
	if peers := &c.ControlPlane.Extra; peers.PeerEndpointReconcileInterval == 0 {
		peers.PeerEndpointReconcileInterval = controlplaneapiserver.DefaultPeerEndpointReconcileInterval
	}
	return nil
}
