package controller

import (
	"context"
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
		if _, known := a.known[gr]; known || !deletable(r) {
			continue
		}
		a.known[gr] = api{
			GroupVersionResource: gv.WithResource(r.Name),
			namespaced:           r.Namespaced,
			collections:          r.Namespaced && slices.Contains(r.Verbs, "deletecollection"),
		}
	}
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
