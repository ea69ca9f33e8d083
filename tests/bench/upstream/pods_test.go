package upstream

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/agent/runtime/images"
	"github.com/a4s-io/a4s/tests/measure"
)

// podsEach is how many pods a side starts, one after the other, in its turn.
const podsEach = 5

// BenchmarkPods measures how long it takes from the request that creates a pod
// until a watch says that its containers are ready. The image is on the node.
func BenchmarkPods(b *testing.B) {
	var all []*cluster
	for _, side := range compared(sideA4s) {
		c := newCluster(b, side)
		c.Start()
		c.awaitNode(b, time.Time{})
		c.importPause(b)
		c.awaitAccount(b, metav1.NamespaceDefault)
		all = append(all, c)
	}
	for _, c := range all { // the first has to load files and make the bridge
		c.podStart(b, "warm-up")
	}
	n := 0
	for b.Loop() {
		round := measure.Round{}
		order := slices.Clone(all)
		if n%2 == 1 {
			slices.Reverse(order)
		}
		for _, c := range order {
			var ready, gone []float64
			for i := range podsEach {
				up, down := c.podStart(b, fmt.Sprintf("pod-%d-%d", n, i))
				ready, gone = append(ready, up.Seconds()), append(gone, down.Seconds())
			}
			slices.Sort(ready)
			slices.Sort(gone)
			round.Set("created to ready, s", c.name, measure.Quantile(ready, 0.5))
			round.Set("slowest of its turn, s", c.name, ready[len(ready)-1])
			round.Set("deleted to gone, s", c.name, measure.Quantile(gone, 0.5))
		}
		n++
		keep(b, "pods", round)
	}
}

// importPause makes sure that the node has the image.
func (c *cluster) importPause(b *testing.B) {
	b.Helper()
	if c.name != sideUpstream {
		return // it carries it
	}
	dir := b.TempDir()
	if _, err := images.Import(b.Context(), images.Options{
		Socket: c.Socket, Snapshotter: "overlayfs", Required: []string{env.carried.PauseImageTar},
		Dir: images.Dir(dir), StateFile: filepath.Join(dir, "images.json"), Log: logrus.WithField("side", c.name),
	}); err != nil {
		b.Fatal(err)
	}
}

// awaitAccount waits until pods can be made in a namespace.
func (c *cluster) awaitAccount(b *testing.B, namespace string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), startTimeout)
	defer cancel()
	for {
		_, err := c.Client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			b.Fatalf("%s: %v", c.name, err)
		case <-time.After(look):
		}
	}
}

// podStart makes a pod and removes it, and returns how long both took.
func (c *cluster) podStart(b *testing.B, name string) (up, down time.Duration) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), startTimeout)
	defer cancel()
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		b.Fatal(err)
	}
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	w, err := pods.Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector("metadata.name", name).String(),
		ResourceVersion: "0",
	})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	began := time.Now()
	if _, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: env.carried.PauseImage}}},
	}, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	for event := range w.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			b.Fatalf("%s: watching pod %s: %v", c.name, name, event.Object)
		}
		switch {
		case event.Type == "DELETED":
			return up, time.Since(began)
		case up == 0 && podReady(pod):
			up = time.Since(began)
			began = time.Now()
			if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Fatalf("%s: the watch of pod %s ended, ready after %v", c.name, name, up)
	return 0, 0
}

func podReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.ContainersReady && condition.Status == corev1.ConditionTrue {
			return pod.Status.Phase == corev1.PodRunning
		}
	}
	return false
}
