package tenantadmin

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

// cordonKnown is how long all partitions may take to know that a node was cordoned.
const cordonKnown = 30 * time.Second

// Nodes are the nodes of all partitions of the cluster.
type Nodes struct {
	// resources are the partitions that have nodes, tenants those that have pods.
	resources, tenants []server
}

// server is the API of a partition; name is empty if the cluster has no other.
type server struct {
	name   string
	client kubernetes.Interface
}

// where names the partition in an error.
func (p server) where() string {
	if p.name == "" {
		return ""
	}
	return " in partition " + p.name
}

// Nodes are those of the cluster.
func (a *Admin) Nodes(ctx context.Context) (*Nodes, error) {
	list, err := partitionapi.NewPartitionClient(a.cfg, nil)
	if err != nil {
		return nil, err
	}
	partitions, err := list.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the partitions of the cluster: %w", err)
	}
	n := &Nodes{}
	if len(partitions.Items) == 0 {
		only := []server{{client: a.kube}}
		n.resources, n.tenants = only, only
		return n, nil
	}
	for i := range partitions.Items {
		p := &partitions.Items[i]
		to := rest.CopyConfig(a.cfg)
		to.Host = a.server + partitionapi.PathPrefix + p.Name
		client, err := kubernetes.NewForConfig(to)
		if err != nil {
			return nil, err
		}
		one := server{name: p.Name, client: client}
		if p.Has(partitionapi.RoleResource) {
			n.resources = append(n.resources, one)
		}
		if p.Has(partitionapi.RoleTenant) {
			n.tenants = append(n.tenants, one)
		}
	}
	return n, nil
}

// isCopy reports whether a node is registered with another partition.
func isCopy(node *corev1.Node) bool {
	_, copied := node.Labels[partitionapi.ResourcePartitionLabel]
	return copied
}

// Names are those of the nodes of all partitions.
func (n *Nodes) Names(ctx context.Context) ([]string, error) {
	var names []string
	for _, p := range n.resources {
		list, err := p.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{
			LabelSelector: "!" + partitionapi.ResourcePartitionLabel})
		if err != nil {
			return nil, fmt.Errorf("listing the nodes%s: %w", p.where(), err)
		}
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
	}
	return names, nil
}
