package partition

import (
	"cmp"
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

// onlyMetadata has an API answer with what is common to all objects.
const onlyMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// countNodes counts the nodes of partitions. One with tenants has copies of all nodes, also of
// partitions that are away; another one asks those with tenants.
func (r *Nodes) countNodes(ctx context.Context) map[string]int {
	own, all := r.Guard.Count(), r.parts.Partitions()
	if r.of.Has(partitionapi.RoleTenant) {
		return complete(own, all)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answers, asked := make(chan map[string]int, len(all)), 0
	for _, p := range all {
		if p.Name == r.of.Self() || !p.Has(partitionapi.RoleTenant) {
			continue
		}
		if c := r.client(p.Name, p.Spec.Identity); c != nil {
			asked++
			go func() { answers <- c.countNodes(ctx, p.Name) }()
		}
	}
	for range asked {
		theirs := <-answers
		if theirs == nil {
			continue
		}
		if own != nil {
			theirs[r.of.Self()] = own[r.of.Self()]
		}
		return complete(theirs, all) // the first that answers knows as much as the others
	}
	return own
}

// complete adds the partitions of which a server with copies of all nodes knows none.
func complete(counts map[string]int, all []*partitionapi.Partition) map[string]int {
	for _, p := range all {
		if _, has := counts[p.Name]; counts != nil && !has {
			counts[p.Name] = 0
		}
	}
	return counts
}

// countNodes counts the nodes that a partition knows, nil if it does not answer.
func (c *resourceClients) countNodes(ctx context.Context, partition string) map[string]int {
	data, err := c.nodes.CoreV1().RESTClient().Get().Resource("nodes").Param("resourceVersion", "0").
		SetHeader("Accept", onlyMetadata).DoRaw(ctx)
	var list metav1.PartialObjectMetadataList
	if err != nil || json.Unmarshal(data, &list) != nil {
		return nil
	}
	out := map[string]int{}
	for i := range list.Items {
		out[cmp.Or(list.Items[i].Labels[partitionapi.ResourcePartitionLabel], partition)]++
	}
	return out
}
