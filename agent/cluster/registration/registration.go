package registration

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	"github.com/a4s-io/a4s/internal/component"
)

// Name is the name of the component.
const Name = "node-registration"

const (
	// retry is how soon it is tried again what could not be done, timeout how long a try takes.
	retry, timeout = time.Second, 10 * time.Second
)

// Options configure a Keeper.
type Options struct {
	NodeName string
	// Client works with the partition that has the node, as the node.
	Client kubernetes.Interface
	// Restored is when that partition was restored from a snapshot last, empty for never, and
	// what is closed when that may have changed.
	Restored func() (at string, changed <-chan struct{})
	Log      *logrus.Entry
}

// Keeper remembers the Node.
type Keeper struct {
	o Options

	mu   sync.Mutex
	last *corev1.Node
}

// New returns a Keeper; Component runs it.
func New(o Options) *Keeper { return &Keeper{o: o} }

// Saw takes note of the Node as it is.
func (k *Keeper) Saw(n *corev1.Node) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = n
}

// Component looks for the Node whenever its partition was restored.
func (k *Keeper) Component() component.Component {
	return component.Component{Name: Name, Run: func(ctx context.Context, ready func()) error {
		ready()
		done := ""
		for {
			at, changed := k.o.Restored()
			var again <-chan time.Time
			if at != done {
				if err := k.look(ctx); err == nil {
					done = at
				} else if ctx.Err() == nil {
					k.o.Log.WithError(err).Info("cannot find out whether the partition of this node, which was " +
						"restored from a snapshot, knows it; trying again")
					again = time.After(retry)
				}
			}
			select {
			case <-changed:
			case <-again:
			case <-ctx.Done():
				return nil
			}
		}
	}}
}

// look makes the Node if it is not there. One that was never seen the kubelet makes.
func (k *Keeper) look(ctx context.Context) error {
	k.mu.Lock()
	last := k.last
	k.mu.Unlock()
	if last == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := k.o.Client.CoreV1().Nodes().Get(ctx, k.o.NodeName, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	_, err = k.o.Client.CoreV1().Nodes().Create(ctx, anew(last), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("registering the node again: %w", err)
	}
	k.o.Log.Warn("The partition of this node was restored from a snapshot and did not know it: it is registered again")
	return nil
}

// anew is a Node as this machine may make it.
func anew(n *corev1.Node) *corev1.Node {
	out := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: maps.Clone(n.Labels),
			Annotations: maps.Clone(n.Annotations)},
		Spec: *n.Spec.DeepCopy(), Status: *n.Status.DeepCopy(),
	}
	maps.DeleteFunc(out.Labels, func(key, _ string) bool { return !allowed(key) })
	//lint:ignore SA1019 of nodes that were made by others
	out.Spec.ConfigSource = nil
	out.Status.Config = nil
	out.Status.VolumesAttached = nil // whoever attaches volumes says so again
	return out
}

// allowed reports whether a node may give itself a label, as the admission NodeRestriction
// has it.
func allowed(key string) bool {
	namespace, _, found := strings.Cut(key, "/")
	if !found {
		return true
	}
	is := func(domain string) bool { return namespace == domain || strings.HasSuffix(namespace, "."+domain) }
	if is(corev1.LabelNamespaceNodeRestriction) {
		return false
	}
	return !is("kubernetes.io") && !is("k8s.io") || kubeletapis.IsKubeletLabel(key)
}
