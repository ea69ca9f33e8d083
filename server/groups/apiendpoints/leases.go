package apiendpoints

//lint:file-ignore SA1019 Endpoints are deprecated, and the seed has the groups in them

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/server/controlplane/apistorage"
)

const (
	// leasesPrefix is where upstream has them.
	leasesPrefix = "/masterleases/"
	// lasts is how long a server counts without a renewal.
	lasts = 10 * time.Second
)

// server is an API server that lives.
type server struct {
	ip    netip.Addr
	group string // "" is a server whose reconciler is upstream's
	port  int32
}

// leases are the keys of the servers that live.
type leases interface {
	list(ctx context.Context) ([]server, error)
	renew(ctx context.Context, s server) error
	// remove returns the error of the storage as it is: upstream asks what it is.
	remove(ctx context.Context, ip netip.Addr) error
}

// stored are those in the datastore.
type stored struct{ storage storage.Interface }

// newStored opens them. destroy ends the connection.
func newStored(config *storagebackend.ConfigForResource) (_ stored, destroy func(), _ error) {
	s, destroy, err := apistorage.Raw(apistorage.Storing{Config: config, Prefix: leasesPrefix})
	if err != nil {
		return stored{}, nil, fmt.Errorf("opening the leases of the API servers: %w", err)
	}
	return stored{s}, destroy, nil
}

func (l stored) list(ctx context.Context) ([]server, error) {
	var found corev1.EndpointsList
	err := l.storage.GetList(ctx, leasesPrefix,
		storage.ListOptions{Predicate: storage.Everything, Recursive: true}, &found)
	if err != nil {
		return nil, fmt.Errorf("listing the leases of the API servers: %w", err)
	}
	var all []server
	for i := range found.Items {
		if s, ok := read(&found.Items[i]); ok {
			all = append(all, s)
		}
	}
	return all, nil
}

// read is the server whose lease it is.
func read(e *corev1.Endpoints) (s server, ok bool) {
	if len(e.Subsets) == 0 || len(e.Subsets[0].Addresses) == 0 {
		return s, false
	}
	ip, err := netip.ParseAddr(e.Subsets[0].Addresses[0].IP)
	if err != nil {
		return s, false
	}
	s.ip = ip
	// Upstream's servers write no port, and leave an annotation of before.
	if ports := e.Subsets[0].Ports; len(ports) > 0 {
		s.group, s.port = e.Annotations[partitionapi.GroupsAnnotation], ports[0].Port
	}
	return s, true
}

func (l stored) renew(ctx context.Context, s server) error {
	update := func(obj runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		e, ok := obj.(*corev1.Endpoints)
		if !ok {
			return nil, nil, fmt.Errorf("a lease is a %T", obj)
		}
		metav1.SetMetaDataAnnotation(&e.ObjectMeta, partitionapi.GroupsAnnotation, s.group)
		e.Subsets = []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: s.ip.String()}},
			Ports:     []corev1.EndpointPort{{Port: s.port}},
		}}
		e.Generation++ // what does not change is not written, and expires
		ttl := uint64(lasts / time.Second)
		return e, &ttl, nil
	}
	if err := l.storage.GuaranteedUpdate(ctx, leasesPrefix+s.ip.String(), &corev1.Endpoints{}, true, nil, update,
		nil); err != nil {
		return fmt.Errorf("renewing the lease of this API server: %w", err)
	}
	return nil
}

func (l stored) remove(ctx context.Context, ip netip.Addr) error {
	return l.storage.Delete(ctx, leasesPrefix+ip.String(), &corev1.Endpoints{}, nil, rest.ValidateAllObjectFunc, nil,
		storage.DeleteOptions{})
}
