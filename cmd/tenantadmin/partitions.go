package tenantadmin

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/problem"
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

// RemovePartition takes a partition out of the cluster. With an identity it is that one, which
// the home partition need not know any more.
func (a *Admin) RemovePartition(ctx context.Context, name, identity string) error {
	partitions, err := partitionapi.NewPartitionClient(a.cfg, nil)
	if err != nil {
		return err
	}
	if identity == "" {
		return partitions.Delete(ctx, name, metav1.DeleteOptions{})
	}
	p, err := partitions.Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil && p.Spec.Identity == identity:
		return partitions.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}})
	case err != nil && !apierrors.IsNotFound(err):
		return err
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		home, err := partitions.Get(ctx, partitionapi.Home, metav1.GetOptions{})
		if err != nil {
			return err
		}
		home.Spec.Remove(partitionapi.RemovedPartition{Name: name, Identity: identity, At: metav1.Now()})
		_, err = partitions.Update(ctx, home, metav1.UpdateOptions{FieldManager: "a4s"})
		return err
	})
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
		problem.Show(w, "%s\t%s\t%d\t%s\t%s\t%s\n", p.Name, strings.Join(p.Roles, ","), p.Tenants, p.ServiceCIDR,
			p.ClusterCIDR, strings.Join(p.Servers, ", "))
	}
	return w.Flush()
}
