package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/tenants/contents"
)

// Operators of a tenant finalize what they manage from pods in its space, by
// accounts, roles, secrets and Services of it. So custom resources, and what else has
// a finalizer that nobody in the cluster takes off, goes while all that is still there.

// operatorsHave is how long after the deletion of a tenant its workloads run on for
// that. Then they go, and what is still held waits without them.
const operatorsHave = 10 * time.Minute

// clusterFinalizers are those that controllers of the cluster take off.
func clusterFinalizers() []string {
	return []string{
		metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents, "kubernetes",
		"kubernetes.io/pvc-protection", "kubernetes.io/pv-protection", "kubernetes.io/vac-protection",
		"external-provisioner.volume.kubernetes.io/finalizer", "batch.kubernetes.io/job-tracking",
		"service.kubernetes.io/load-balancer-cleanup", "resource.kubernetes.io/delete-protection",
		"customresourcecleanup.apiextensions.k8s.io",
	}
}

// byOperators reports whether an object has a finalizer that somebody else has to
// take off.
func byOperators(m *metav1.PartialObjectMetadata) bool {
	return slices.ContainsFunc(m.Finalizers, func(f string) bool { return !slices.Contains(clusterFinalizers(), f) })
}

// finalizing deletes what operators may have to finalize. It reports whether there is
// any, so that all else has to stay.
func (e *emptying) finalizing(ctx context.Context, left []contents.Resource) (bool, error) {
	if time.Since(e.deleted) > operatorsHave {
		return false, nil
	}
	var customs, others []contents.Resource
	var pods bool
	for _, r := range left {
		switch t := turn(r.GroupResource); {
		case !e.builtIn[r.Group]:
			if _, err := e.api(ctx, r); !errors.Is(err, errUnserved) {
				customs = append(customs, r)
			}
		case t == workloads:
			pods = true
			others = append(others, r)
		case t == rest && r.Resource != "events":
			others = append(others, r)
		}
	}
	err := e.delete(ctx, customs, nil)
	if err != nil || !pods {
		return len(customs) > 0, err
	}
	held, err := e.held(ctx, others)
	if err != nil {
		return len(customs) > 0, err
	}
	return len(customs)+len(held) > 0, inParallel(held, func(r request) error { return e.send(ctx, r) })
}

// held are the objects of resources that have finalizers of operators.
func (e *emptying) held(ctx context.Context, resources []contents.Resource) (held []request, err error) {
	client, err := metadata.NewForConfigAndClient(e.inSpace(), e.http)
	if err != nil {
		return nil, fmt.Errorf("making a client of metadata: %w", err)
	}
	for _, r := range resources {
		a, err := e.api(ctx, r)
		if errors.Is(err, errUnserved) {
			continue
		}
		if err != nil {
			return nil, err
		}
		err = eachPage(ctx, client.Resource(a.GroupVersionResource), func(page []metav1.PartialObjectMetadata) {
			for i := range page {
				if m := &page[i]; byOperators(m) {
					held = append(held, request{a, e.composite(m)})
				}
			}
		})
		if apierrors.IsNotFound(err) {
			continue // it is not served any more
		}
		if err != nil {
			return nil, fmt.Errorf("looking for finalizers of %s: %w", r.GroupResource, err)
		}
	}
	return held, nil
}

// composite is the name of an object that was found in the space.
func (e *emptying) composite(m *metav1.PartialObjectMetadata) contents.Object {
	if m.Namespace == "" {
		return contents.Object{Name: space.ClusterName(e.tenant, m.Name)}
	}
	return contents.Object{Namespace: space.Namespace(e.tenant, m.Namespace), Name: m.Name}
}

// note says why the workloads of a deleted tenant run.
func (e *emptying) note() string {
	if !e.operators {
		return ""
	}
	return fmt.Sprintf("; the workloads of the tenant run until %s, "+
		"because its operators may be what takes finalizers off",
		e.deleted.Add(operatorsHave).UTC().Format(time.RFC3339))
}
