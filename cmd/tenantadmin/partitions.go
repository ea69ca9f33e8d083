package tenantadmin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/problem"
)

// Partition is a partition of the cluster, and what it has.
type Partition = joinapi.PartitionState

// statesWithin bounds the question how the partitions are: the server answers within three
// seconds, whatever is down elsewhere.
const statesWithin = 5 * time.Second

// Partitions are those of the cluster as the server sees them; none are told of one that has
// only the first.
func (a *Admin) Partitions(ctx context.Context) ([]Partition, error) {
	limited, cancel := context.WithTimeout(ctx, statesWithin)
	defer cancel()
	data, err := a.kube.Discovery().RESTClient().Get().AbsPath(joinapi.PathPartitionStates).MaxRetries(0).
		DoRaw(limited)
	switch {
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		// Who has no certificate of an administrator may read what home has all the same, and a
		// server of before does not say more.
		return a.registered(ctx)
	case err != nil:
		return nil, err
	}
	var out []Partition
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("reading how the partitions are: %w", err)
	}
	return out, nil
}

// registered are the partitions as the home partition has them, whose states it does not know.
func (a *Admin) registered(ctx context.Context) ([]Partition, error) {
	partitions, err := partitionapi.NewPartitionClient(a.cfg, nil)
	if err != nil {
		return nil, err
	}
	list, err := partitions.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	tenants := map[string]int{}
	for o := (metav1.ListOptions{Limit: 500}); ; {
		page, err := a.placements.List(ctx, o)
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
	fmt.Fprint(w, "NAME\tROLES\tSTATE\tNODES\tTENANTS\tLAST SEEN\tSERVICES\tPODS\tSERVERS\n")
	for _, p := range list {
		state, nodes, seen := cmp.Or(p.State, "-"), "-", "-"
		if p.Nodes != nil {
			nodes = strconv.Itoa(*p.Nodes)
		}
		if p.LastSeen != nil {
			seen = "now"
			if p.State == joinapi.PartitionAway {
				seen = p.LastSeen.UTC().Format(time.RFC3339)
			}
		}
		var servers []string
		for _, s := range p.Servers {
			if slices.Contains(p.Silent, s) {
				s += " silent"
			}
			servers = append(servers, s)
		}
		problem.Show(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", p.Name, strings.Join(p.Roles, ","), state, nodes,
			p.Tenants, seen, p.ServiceCIDR, p.ClusterCIDR, strings.Join(servers, ", "))
	}
	return w.Flush()
}
