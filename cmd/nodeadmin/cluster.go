package nodeadmin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

// known is how long all partitions may take to know that a node was cordoned.
const known = 30 * time.Second

// Cluster is where nodes are drained.
type Cluster struct {
	// resources are the partitions that have nodes, tenants those that have pods.
	resources, tenants []partition
}

// partition is one of the cluster; name is empty if the cluster has no other.
type partition struct {
	name   string
	client kubernetes.Interface
}

// where names the partition in an error.
func (p partition) where() string {
	if p.name == "" {
		return ""
	}
	return " in partition " + p.name
}

// New returns the cluster that cfg is an administrator of.
func New(ctx context.Context, cfg *rest.Config) (*Cluster, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // an eviction is asked for again at a pace of its own
	list, err := partitionapi.NewPartitionClient(cfg, nil)
	if err != nil {
		return nil, err
	}
	partitions, err := list.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the partitions of the cluster: %w", err)
	}
	c := &Cluster{}
	if len(partitions.Items) == 0 {
		client, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			return nil, err
		}
		only := []partition{{client: client}}
		c.resources, c.tenants = only, only
		return c, nil
	}
	for i := range partitions.Items {
		p := &partitions.Items[i]
		to := rest.CopyConfig(cfg)
		to.Host = strings.TrimRight(cfg.Host, "/") + partitionapi.PathPrefix + p.Name
		client, err := kubernetes.NewForConfig(to)
		if err != nil {
			return nil, err
		}
		one := partition{name: p.Name, client: client}
		if slices.Contains(p.Spec.Roles, partitionapi.RoleResource) {
			c.resources = append(c.resources, one)
		}
		if slices.Contains(p.Spec.Roles, partitionapi.RoleTenant) {
			c.tenants = append(c.tenants, one)
		}
	}
	return c, nil
}

// isCopy reports whether a node is registered with another partition.
func isCopy(node *corev1.Node) bool { return node.Labels[partitionapi.ResourcePartitionLabel] != "" }

// Names are those of the nodes of all partitions.
func (c *Cluster) Names(ctx context.Context) ([]string, error) {
	var names []string
	for _, p := range c.resources {
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
