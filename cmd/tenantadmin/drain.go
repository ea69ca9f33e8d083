package tenantadmin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/kubectl/pkg/drain"

	"github.com/a4s-io/a4s/internal/problem"
)

// ErrNoNode is a name that no node of the cluster has.
var ErrNoNode = errors.New("the cluster has no such node")

// podsAtATime is how many pods are listed at a time.
const podsAtATime = 500

// DrainOptions say how to drain. Their meaning is that of the flags of kubectl drain.
type DrainOptions struct {
	Force, IgnoreDaemonSets, DeleteEmptyDirData, DisableEviction, DryRun bool
	// GracePeriod is in seconds; that of each pod if it is negative.
	GracePeriod int
	// Timeout bounds the eviction of the pods of a node, 0 for no bound.
	Timeout time.Duration
	// PodSelector is of the labels of the pods to evict, all if it is empty.
	PodSelector string
	Out, ErrOut io.Writer
}

// Drain cordons a node and evicts its pods in all partitions. The node is cordoned where
// it is registered, and all tenant partitions know it, before a pod is evicted; none is if
// the pods of a partition cannot be listed, or some may not be evicted. ErrNoNode is a node
// that no partition has.
func (n *Nodes) Drain(ctx context.Context, name string, o DrainOptions) error {
	home, node, err := n.find(ctx, name)
	if err != nil {
		return err
	}
	if o.DryRun {
		problem.Show(o.Out, "node/%s cordoned (dry run)\n", name)
	} else {
		if err := drain.RunCordonOrUncordon(o.helper(ctx, home), node, true); err != nil {
			return fmt.Errorf("cordoning node %s%s: %w", name, home.where(), err)
		}
		problem.Show(o.Out, "node/%s cordoned\n", name)
		if err := n.awaitCordoned(ctx, name); err != nil {
			return err
		}
	}
	lists := make([]*drain.PodDeleteList, len(n.tenants))
	for i, p := range n.tenants {
		list, errs := o.helper(ctx, p).GetPodsForDeletion(name)
		if len(errs) > 0 {
			return fmt.Errorf("listing the pods of node %s%s: %w", name, p.where(), errors.Join(errs...))
		}
		if warnings := list.Warnings(); warnings != "" {
			problem.Show(o.ErrOut, "Warning: %s\n", warnings)
		}
		lists[i] = list
	}
	all, ctx := errgroup.WithContext(ctx)
	for i, p := range n.tenants {
		pods := lists[i].Pods()
		if o.DryRun {
			for _, pod := range pods {
				problem.Show(o.Out, "evicting pod %s/%s%s (dry run)\n", pod.Namespace, pod.Name, p.where())
			}
			continue
		}
		all.Go(func() error {
			if err := o.helper(ctx, p).DeleteOrEvictPods(pods); err != nil {
				return fmt.Errorf("evicting the pods of node %s%s: %w", name, p.where(), err)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	suffix := ""
	if o.DryRun {
		suffix = " (dry run)"
	}
	_, err = problem.Show(o.Out, "node/%s drained%s\n", name, suffix)
	return err
}

// helper drains the node in one partition.
func (o DrainOptions) helper(ctx context.Context, p server) *drain.Helper {
	return &drain.Helper{
		Ctx: ctx, Client: p.client, Force: o.Force, IgnoreAllDaemonSets: o.IgnoreDaemonSets,
		DeleteEmptyDirData: o.DeleteEmptyDirData, DisableEviction: o.DisableEviction,
		GracePeriodSeconds: o.GracePeriod, Timeout: o.Timeout, PodSelector: o.PodSelector,
		ChunkSize: podsAtATime, EvictErrorRetryDelay: 5 * time.Second,
		Out: linesOf{o.Out, p.where()}, ErrOut: linesOf{o.ErrOut, p.where()},
	}
}

// linesOf says at the end of each line where that is: pods of two partitions have equal names.
type linesOf struct {
	io.Writer
	where string
}

// Write implements io.Writer.
func (l linesOf) Write(p []byte) (int, error) {
	if _, err := l.Writer.Write(bytes.ReplaceAll(p, []byte("\n"), []byte(l.where+"\n"))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// find returns a node and the partition that it is registered with.
func (n *Nodes) find(ctx context.Context, name string) (server, *corev1.Node, error) {
	var silent error
	for _, p := range n.resources {
		node, err := p.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			silent = errors.Join(silent, fmt.Errorf("reading node %s%s: %w", name, p.where(), err))
		case isCopy(node):
		default:
			return p, node, nil
		}
	}
	if silent != nil {
		return server{}, nil, silent
	}
	return server{}, nil, ErrNoNode
}

// awaitCordoned waits until no scheduler gives the node another pod: a tenant
// partition has a copy of the node, which follows within a second.
func (n *Nodes) awaitCordoned(ctx context.Context, name string) error {
	for _, p := range n.tenants {
		err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, cordonKnown, true,
			func(ctx context.Context) (bool, error) {
				node, err := p.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return true, nil // it has no pods there
				}
				return err == nil && node.Spec.Unschedulable, err
			})
		if err != nil {
			return fmt.Errorf("waiting until it is known%s that node %s is cordoned: %w", p.where(), name, err)
		}
	}
	return nil
}
