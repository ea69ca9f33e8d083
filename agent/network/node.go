package network

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// annotationPrefix marks what flannel keeps on Node objects.
const annotationPrefix = "flannel.alpha.coreos.com"

// nodeState is what the network depends on in this node's object.
type nodeState struct {
	podCIDR    string // the IPv4 one
	registered bool   // whether flannel's annotations are there
}

func stateOf(n *corev1.Node) nodeState {
	s := nodeState{registered: n.Annotations[annotationPrefix+"/kube-subnet-manager"] == "true"}
	for _, c := range slices.Concat(n.Spec.PodCIDRs, []string{n.Spec.PodCIDR}) {
		if p, err := netip.ParsePrefix(c); err == nil && p.Addr().Is4() {
			s.podCIDR = p.String()
			break
		}
	}
	return s
}

// watchNode delivers the state of the node when it changes; only the newest
// waits to be read. A deleted node delivers nothing: it registers again.
func watchNode(ctx context.Context, client kubernetes.Interface, name string) <-chan nodeState {
	out := make(chan nodeState, 1)
	var last *nodeState
	publish := func(obj any) {
		n, ok := obj.(*corev1.Node)
		if !ok {
			return
		}
		s := stateOf(n)
		if last != nil && *last == s {
			return
		}
		last = &s
		select {
		case <-out:
		default:
		}
		out <- s
	}
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "nodes", "",
			fields.OneTermEqualSelector("metadata.name", name)),
		ObjectType: &corev1.Node{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    publish,
			UpdateFunc: func(_, obj any) { publish(obj) },
		},
	})
	go controller.RunWithContext(ctx)
	return out
}

// waitForPodCIDR blocks until the controller manager gave the node its range.
func waitForPodCIDR(ctx context.Context, states <-chan nodeState, log *logrus.Entry) (string, error) {
	hint := time.NewTimer(10 * time.Second)
	defer hint.Stop()
	for {
		select {
		case s := <-states:
			if s.podCIDR != "" {
				return s.podCIDR, nil
			}
		case <-hint.C:
			log.Warn("still waiting for the node to be registered and to get its range of pod addresses")
		case <-ctx.Done():
			return "", fmt.Errorf("waiting for the node's pod range: %w", context.Cause(ctx))
		}
	}
}

// watchForChange returns an error as soon as the node's object no longer
// matches what was set up.
func watchForChange(ctx context.Context, states <-chan nodeState, podCIDR string) error {
	registered := false
	for {
		select {
		case s := <-states:
			switch {
			case s.podCIDR != "" && s.podCIDR != podCIDR:
				return fmt.Errorf("%w from %s to %s; pods that are running keep addresses that no longer work, "+
					"delete them", errRangeChanged, podCIDR, s.podCIDR)
			case registered && !s.registered:
				// Someone deleted the Node and it registered again.
				return errUnregistered
			}
			registered = registered || s.registered
		case <-ctx.Done():
			return nil
		}
	}
}
