package loadbalancer

import (
	"slices"
	"sync"

	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/component"
)

// Others are the servers of other service groups than that of the server on this machine,
// whose node has no Balancer.
type Others struct {
	own string

	mu     sync.Mutex
	groups map[string][]string
}

// NewOthers returns Others that knows of no server. own is the service group of the server
// on this machine.
func NewOthers(own string) *Others { return &Others{own: own} }

// Follow returns the component that learns from the cluster which servers the groups have.
// It is ready when it learned so once.
func (o *Others) Follow(client kubernetes.Interface) component.Component {
	return follower(client, func(_ []string, groups map[string][]string) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.groups = groups
	})
}

// Group returns the addresses, "host:port", of the servers of another service group; none
// of this server's own, which the node reaches anyway.
func (o *Others) Group(id string) []string {
	if id == o.own {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.groups[id])
}
