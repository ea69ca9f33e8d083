package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/bench/hollow"
	"github.com/a4s-io/a4s/tests/bench/sides"
)

// runTimeout bounds how long it takes until all pods run.
const runTimeout = 30 * time.Minute

func tenantName(i int) string { return fmt.Sprintf("tenant-%04d", i) }

// namespaceOf is where the pods of a tenant are, as an administrator calls it.
func namespaceOf(tenant int) string {
	return space.Namespace(tenantName(tenant), metav1.NamespaceDefault)
}

func podName(i int) string { return fmt.Sprintf("web-%05d", i) }

// fill stores what all layouts have, by one server.
func (c *cluster) fill(ctx context.Context) error {
	began := time.Now()
	if err := c.start(ctx, layout{groups: 1, each: 1}); err != nil {
		return err
	}
	if err := c.follow(ctx); err != nil {
		return err
	}
	signer, err := c.servers[0].Signer()
	if err != nil {
		return err
	}
	if c.nodes > 0 {
		c.fleet, err = hollow.Start(ctx, hollow.Options{Nodes: c.nodes,
			Access: func(user string, groups ...string) (*rest.Config, error) {
				access, err := signer.User(user, groups...)
				if err != nil {
					return nil, err
				}
				return c.merged(access), nil
			}})
		if err != nil {
			return err
		}
	}
	admin := sides.Efficient(c.servers[0].Config)
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return err
	}
	tenants, err := tenantapi.NewClient(admin, nil)
	if err != nil {
		return err
	}
	work, workCtx := errgroup.WithContext(ctx)
	work.SetLimit(c.clients)
	for i := range c.tenants {
		work.Go(func() error { return c.fillTenant(workCtx, i, tenants, client) })
	}
	if err := work.Wait(); err != nil {
		return err
	}
	log.Printf("%d tenants and %d pods are made after %v", c.tenants, c.podsEach()*c.tenants,
		time.Since(began).Round(time.Second))
	return c.awaitRunning(ctx, client)
}

// fillTenant makes a tenant and its pods.
func (c *cluster) fillTenant(
	ctx context.Context, tenant int, tenants *tenantapi.Client, client kubernetes.Interface,
) error {
	name := tenantName(tenant)
	made := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := tenants.Create(ctx, made, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making tenant %s: %w", name, err)
	}
	// The first request makes the space.
	own, err := kubernetes.NewForConfig(tenantapi.InSpace(sides.Efficient(c.servers[0].Config), name))
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := sides.Await(limited, "the space of "+name, func() error {
		_, err := own.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(limited, "default", metav1.GetOptions{})
		return err
	}); err != nil {
		return err
	}
	pods := client.CoreV1().Pods(namespaceOf(tenant))
	for i := range c.podsEach() {
		if _, err := pods.Create(ctx, pod(i), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("making pod %s of %s: %w", podName(i), name, err)
		}
		if c.nodes == 0 {
			continue
		}
		// As the scheduler does, which would take most of the time.
		if err := pods.Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: podName(i)},
			Target:     corev1.ObjectReference{Kind: "Node", Name: hollow.Name((tenant*c.podsEach() + i) % c.nodes)},
		}, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("binding pod %s of %s: %w", podName(i), name, err)
		}
	}
	return nil
}

// pod is one as they are common: with labels, an environment and requests.
func pod(i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(i), Labels: map[string]string{"app": fmt.Sprint("web-", i/10), "tier": "front"},
			Annotations: map[string]string{"example.com/note": "some words about this pod"},
		},
		Spec: corev1.PodSpec{SchedulerName: "nobody", Containers: []corev1.Container{{
			Name: "web", Image: "example.com/web:1", Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
			Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
			}},
		}}},
	}
}

// awaitRunning returns when the nodes have said of all pods that they run.
func (c *cluster) awaitRunning(ctx context.Context, client kubernetes.Interface) error {
	if c.nodes == 0 {
		return nil
	}
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	err := sides.Await(limited, "all pods to run", func() error {
		list, err := client.CoreV1().Pods("").List(limited, metav1.ListOptions{
			FieldSelector: "status.phase!=Running", ResourceVersion: "0",
		})
		if err != nil {
			return err
		}
		if n := len(list.Items); n > 0 {
			// Listing costs what the nodes need.
			if err := sides.Sleep(limited, time.Second); err != nil {
				return err
			}
			return fmt.Errorf("%d do not", n)
		}
		return nil
	})
	log.Printf("all run %v later", time.Since(began).Round(time.Second))
	return err
}
