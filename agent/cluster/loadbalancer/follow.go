package loadbalancer

import (
	"context"
	"net"
	"strconv"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/component"
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
	return component.Component{Name: FollowerName, Run: func(ctx context.Context, ready func()) error {
		b.follow(ctx, client, ready)
		return nil
	}}
}

func (b *Balancer) follow(ctx context.Context, client kubernetes.Interface, ready func()) {
	var store cache.Store
	var mu sync.Mutex // what is newer must not be overtaken
	learn := func() {
		mu.Lock()
		defer mu.Unlock()
		b.Learn(addresses(store.List()))
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
	slices := client.DiscoveryV1().EndpointSlices(serviceNamespace)
	const selector = discoveryv1.LabelServiceName + "=" + serviceName
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return slices.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return slices.Watch(ctx, o)
		},
	}, client)
}

// addresses are those of the endpoints that are in use.
func addresses(slices []any) []string {
	var out []string
	for _, obj := range slices {
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
				if net.ParseIP(ip) != nil {
					out = append(out, net.JoinHostPort(ip, strconv.Itoa(int(port))))
				}
			}
		}
	}
	return out
}
