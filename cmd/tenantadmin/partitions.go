package tenantadmin

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

// Partition is a partition of the cluster, and what it has.
type Partition struct {
	Name        string   `json:"name"`
	Roles       []string `json:"roles"`
	Tenants     int      `json:"tenants"`
	ServiceCIDR string   `json:"serviceCIDR"`
	ClusterCIDR string   `json:"clusterCIDR"`
	Servers     []string `json:"servers"`
}

// Partitions are those of the cluster; none are told of one that has only the first.
func (a *Admin) Partitions(ctx context.Context) ([]Partition, error) {
	partitions, err := partitionapi.NewPartitionClient(a.cfg, nil)
	if err != nil {
		return nil, err
	}
	placements, err := partitionapi.NewPlacementClient(a.cfg, nil)
	if err != nil {
		return nil, err
	}
	list, err := partitions.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	tenants := map[string]int{}
	for o := (metav1.ListOptions{Limit: 500}); ; {
		page, err := placements.List(ctx, o)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			tenants[page.Items[i].Spec.Partition]++
		}
		if o.Continue = page.Continue; o.Continue == "" {
			break
		}
	}
	out := []Partition{}
	for i := range list.Items {
		p := &list.Items[i]
		one := Partition{Name: p.Name, Tenants: tenants[p.Name], ServiceCIDR: p.Spec.ServiceCIDR,
			ClusterCIDR: p.Spec.ClusterCIDR}
		for _, role := range p.Spec.Roles {
			one.Roles = append(one.Roles, string(role))
		}
		for _, s := range p.Spec.Servers {
			one.Servers = append(one.Servers, s.Name+" ("+s.Address+")")
		}
		out = append(out, one)
	}
	return out, nil
}

// RemovePartition takes a partition out of the cluster.
func (a *Admin) RemovePartition(ctx context.Context, name string) error {
	partitions, err := partitionapi.NewPartitionClient(a.cfg, nil)
	if err != nil {
		return err
	}
	return partitions.Delete(ctx, name, metav1.DeleteOptions{})
}

// WritePartitions prints partitions for people.
func WritePartitions(out io.Writer, list []Partition) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "The cluster has one partition.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0) // Flush reports the errors of all writes
	fmt.Fprint(w, "NAME\tROLES\tTENANTS\tSERVICES\tPODS\tSERVERS\n")
	for _, p := range list {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\n", p.Name, strings.Join(p.Roles, ","), p.Tenants, p.ServiceCIDR,
			p.ClusterCIDR, strings.Join(p.Servers, ", "))
	}
	return w.Flush()
}
