package loadbalancer

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/partitionapi"
)

// FollowerName is the name of the component that learns of servers.
const FollowerName = "servers"

// The service that stands for the API servers; its endpoints are theirs.
const (
	serviceNamespace = "default"
	serviceName      = "kubernetes"
	servicePort      = "https"
)

// Follow returns the component that learns from the cluster which servers it
// has. It is ready when it learned so once.
func (b *Balancer) Follow(client kubernetes.Interface) component.Component {
	return follower(client, func(all []string, groups map[string][]string) {
		if len(all) > 0 { // as Learn does
			b.learnGroups(groups)
		}
		b.Learn(all)
	})
}

// follower tells learn of the servers that the cluster has, and again when they change.
func follower(
	client kubernetes.Interface, learn func(all []string, groups map[string][]string),
) component.Component {
	return component.Component{Name: FollowerName, Run: func(ctx context.Context, ready func()) error {
		follow(ctx, client, ready, learn)
		return nil
	}}
}

func follow(
	ctx context.Context, client kubernetes.Interface, ready func(), tell func([]string, map[string][]string),
) {
	var store cache.Store
	var mu sync.Mutex // what is newer must not be overtaken
	learn := func() {
		mu.Lock()
		defer mu.Unlock()
		tell(addresses(store.List()))
	}
	synced := make(chan struct{})
	changed := func() {
		select {
		case <-synced:
			learn()
		default: // there is more to come
		}
	}
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: listerWatcher(client),
		ObjectType:    &discoveryv1.EndpointSlice{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { changed() },
			UpdateFunc: func(any, any) { changed() },
			DeleteFunc: func(any) { changed() },
		},
	})
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), controller.HasSynced) {
			close(synced)
			learn()
			ready()
		}
	}()
	controller.RunWithContext(ctx)
}

func listerWatcher(client kubernetes.Interface) cache.ListerWatcher {
	endpoints := client.DiscoveryV1().EndpointSlices(serviceNamespace)
	const selector = discoveryv1.LabelServiceName + "=" + serviceName
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return endpoints.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return endpoints.Watch(ctx, o)
		},
	}, client)
}

// addresses are those of the endpoints that are in use, and of which service group they
// are. What has a group is in a slice without one, too.
func addresses(found []any) (all []string, groups map[string][]string) {
	groups = map[string][]string{}
	for _, obj := range found {
		slice, ok := obj.(*discoveryv1.EndpointSlice)
		if !ok {
			continue
		}
		port := int32(0)
		for _, p := range slice.Ports {
			if p.Port != nil && (p.Name == nil || *p.Name == servicePort || port == 0) {
				port = *p.Port
			}
		}
		if port == 0 {
			continue
		}
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			for _, ip := range e.Addresses {
				if net.ParseIP(ip) == nil {
					continue
				}
				address := net.JoinHostPort(ip, strconv.Itoa(int(port)))
				all = append(all, address)
				if group := slice.Labels[partitionapi.GroupLabel]; group != "" {
					groups[group] = append(groups[group], address)
				}
			}
		}
	}
	for id, of := range groups {
		slices.Sort(of)
		groups[id] = slices.Compact(of)
	}
	return all, groups
}
