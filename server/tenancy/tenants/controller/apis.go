package controller

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/a4s-io/a4s/server/tenancy/tenants/contents"
)

const (
	// freshFor is how long what the API serves is taken for known.
	freshFor = 10 * time.Second
	// missedFor is how long it is, after something was not found.
	missedFor = time.Second
)

// api is how the objects of a resource are deleted.
type api struct {
	schema.GroupVersionResource
	namespaced  bool
	collections bool // all objects of a namespace by one request
	// stored says that the version is the one that objects are written in, so that
	// none of them has to be converted but those of older times.
	stored bool
}

// errUnserved is for objects that nobody can delete.
var errUnserved = errors.New("no API deletes it")

// apis knows the API of each resource as one space has it.
type apis struct {
	client discovery.DiscoveryInterface
	// ofTenant is set when the space is a tenant's, which has no API servers
	// of others.
	ofTenant bool

	mu      sync.Mutex
	at      time.Time
	known   map[schema.GroupResource]api
	served  map[schema.GroupVersionResource]bool
	asked   map[schema.GroupResource]bool // in which version they are stored
	foreign bool
}

// of is the API of objects.
func (a *apis) of(ctx context.Context, r contents.Resource) (api, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.refresh(ctx, freshFor); err != nil {
		return api{}, err
	}
	if found, ok := a.known[r.GroupResource]; !ok || found.namespaced != r.Namespaced {
		if err := a.refresh(ctx, missedFor); err != nil {
			return api{}, err
		}
	}
	found, ok := a.known[r.GroupResource]
	if !ok || found.namespaced != r.Namespaced {
		return api{}, fmt.Errorf("%s: %w", r.GroupResource, errUnserved)
	}
	return found, nil
}

// ofStored is of, in the version that objects are stored in, if that is served.
func (a *apis) ofStored(ctx context.Context, r contents.Resource) (api, error) {
	found, err := a.of(ctx, r)
	if err != nil {
		return found, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked[r.GroupResource] {
		return a.known[r.GroupResource], nil
	}
	// Discovery of all at once does not say.
	list, err := a.client.ServerResourcesForGroupVersion(found.GroupVersion().String())
	if err != nil {
		return api{}, fmt.Errorf("finding out in which version %s are stored: %w", r.GroupResource, err)
	}
	for _, of := range list.APIResources {
		if of.Name != r.Resource {
			continue
		}
		for gvr := range a.served {
			if gvr.GroupResource() == r.GroupResource &&
				of.StorageVersionHash == storageHash(gvr.GroupVersion().WithKind(of.Kind)) {
				found.GroupVersionResource, found.stored = gvr, true
			}
		}
	}
	a.known[r.GroupResource], a.asked[r.GroupResource] = found, true
	return found, nil
}

// elsewhere reports whether namespaces can have objects that are not in the
// datastore, but with an API server of somebody else's.
func (a *apis) elsewhere(ctx context.Context) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.refresh(ctx, freshFor)
	return a.foreign, err
}

// refresh finds out again what is older than age.
func (a *apis) refresh(ctx context.Context, age time.Duration) error {
	if time.Since(a.at) < age {
		return nil
	}
	var services []schema.GroupVersion
	if !a.ofTenant {
		var err error
		if services, err = a.services(ctx); err != nil {
			return fmt.Errorf("finding out which API servers there are: %w", err)
		}
	}
	groups, lists, err := a.client.ServerGroupsAndResources()
	if failed := (*discovery.ErrGroupDiscoveryFailed)(nil); err != nil && !errors.As(err, &failed) {
		return fmt.Errorf("finding out which resources there are: %w", err)
	}
	byVersion := map[string][]metav1.APIResource{}
	for _, list := range lists {
		byVersion[list.GroupVersion] = list.APIResources
	}
	a.known, a.foreign, a.at = map[schema.GroupResource]api{}, false, time.Now()
	a.served, a.asked = map[schema.GroupVersionResource]bool{}, map[schema.GroupResource]bool{}
	for _, group := range groups {
		for _, v := range append([]metav1.GroupVersionForDiscovery{group.PreferredVersion}, group.Versions...) {
			a.add(schema.GroupVersion{Group: group.Name, Version: v.Version}, byVersion[v.GroupVersion])
		}
	}
	for _, service := range services {
		resources, found := byVersion[service.String()]
		// Who does not answer may have anything.
		if !found || slices.ContainsFunc(resources,
			func(r metav1.APIResource) bool { return r.Namespaced && deletable(r) }) {
			a.foreign = true
		}
	}
	return nil
}

// add makes the resources of one version known, unless another version of
// them is.
func (a *apis) add(gv schema.GroupVersion, resources []metav1.APIResource) {
	for _, r := range resources {
		gr := schema.GroupResource{Group: gv.Group, Resource: r.Name}
		if !deletable(r) {
			continue
		}
		a.served[gv.WithResource(r.Name)] = true
		if _, known := a.known[gr]; known {
			continue
		}
		a.known[gr] = api{
			GroupVersionResource: gv.WithResource(r.Name),
			namespaced:           r.Namespaced,
			collections:          r.Namespaced && slices.Contains(r.Verbs, "deletecollection"),
		}
	}
}

// storageHash is how discovery tells the version that objects are stored in.
func storageHash(gvk schema.GroupVersionKind) string {
	sum := sha256.Sum256([]byte(gvk.Group + "/" + gvk.Version + "/" + gvk.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

func deletable(r metav1.APIResource) bool {
	return !strings.Contains(r.Name, "/") && slices.Contains(r.Verbs, "delete")
}

// services are the API servers of others.
func (a *apis) services(ctx context.Context) ([]schema.GroupVersion, error) {
	body, err := a.client.RESTClient().Get().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices").
		SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			Spec struct {
				Group   string           `json:"group"`
				Version string           `json:"version"`
				Service *json.RawMessage `json:"service"`
			} `json:"spec"`
		} `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	var out []schema.GroupVersion
	for _, s := range list.Items {
		if s.Spec.Service != nil {
			out = append(out, schema.GroupVersion{Group: s.Spec.Group, Version: s.Spec.Version})
		}
	}
	return out, nil
}
