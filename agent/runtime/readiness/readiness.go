package readiness

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/noderuntime"
)

// Name is the name of the component.
const Name = "runtime-readiness"

const (
	// settle gathers changes that come together, as at the start of a node.
	settle = 50 * time.Millisecond
	// gap keeps a runtime that flaps from flooding the server. What happens
	// meanwhile is reported well within a second.
	gap = 500 * time.Millisecond
	// heartbeat is how old a condition becomes before it is said again. The
	// kubelet does so with its own as often.
	heartbeat = 5 * time.Minute
	// timeout bounds one attempt to report.
	timeout = 10 * time.Second
	// Attempts that failed are repeated, with twice the pause each time.
	minRetry, maxRetry = 200 * time.Millisecond, 3 * time.Second
)

// Runtimes know the runtimes of this node.
type Runtimes interface {
	// States are in the order of registration.
	States() []noderuntime.State
	// Subscribe returns a channel that has a value after States changed, and
	// a function that ends the subscription.
	Subscribe() (changed <-chan struct{}, end func())
}

// Options configure the component.
type Options struct {
	// Client writes to the Node as this node.
	Client kubernetes.Interface
	// NodeName is the name of the Node.
	NodeName string
	// Runtimes are those to report.
	Runtimes Runtimes
	// Told is where to remember what was reported; may be nil.
	Told *Told
	// Seen is told of the Node whenever it changes; it may be nil.
	Seen func(*corev1.Node)
	// Log may be nil.
	Log *logrus.Entry
}

// New returns the component. It is ready when it has reported once.
func New(o Options) component.Component {
	if o.Told == nil {
		o.Told = &Told{}
	}
	if o.Log == nil {
		o.Log = logrus.WithField("component", Name)
	}
	return component.Component{Name: Name, Run: o.run}
}

func (o Options) run(ctx context.Context, ready func()) error {
	changed, end := o.Runtimes.Subscribe()
	defer end()
	deviates := o.watch(ctx)
	pause := retries()
	var retry <-chan time.Time
	beat := time.NewTimer(0) // the first report
	defer beat.Stop()
	failing := false
	var last time.Time
	for {
		select {
		case <-changed:
			if component.Sleep(ctx, max(settle, time.Until(last.Add(gap)))) != nil {
				return nil
			}
		case <-deviates:
		case <-retry:
		case <-beat.C:
		case <-ctx.Done():
			return nil
		}
		retry = nil
		err := o.report(ctx)
		last = time.Now()
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			ready()
			pause, failing = retries(), false
			beat.Reset(wait.Jitter(heartbeat, 0.1))
		default:
			if !failing && !apierrors.IsNotFound(err) { // the kubelet is about to register it
				o.Log.WithError(err).Info("cannot report the runtimes of this node yet; trying again")
				failing = true
			}
			retry = time.After(pause.Step())
		}
	}
}

func retries() wait.Backoff {
	return wait.Backoff{Duration: minRetry, Factor: 2, Jitter: 0.2, Steps: 1 << 30, Cap: maxRetry}
}

// report makes the Node say what the runtimes are.
func (o Options) report(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	node, err := o.Client.CoreV1().Nodes().Get(ctx, o.NodeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("looking for the Node object: %w", err)
	}
	// Those of now: they may have changed while the server was away.
	states := o.Runtimes.States()
	patch, err := patchFor(node, states, time.Now(), heartbeat)
	if err != nil {
		return err
	}
	if patch == nil {
		o.Told.note(Conditions(states), time.Now())
		return nil
	}
	if _, err := o.Client.CoreV1().Nodes().Patch(ctx, o.NodeName, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("writing the conditions of the runtimes: %w", err)
	}
	o.Told.note(Conditions(states), time.Now())
	return nil
}

// watch signals that the Node is there and does not say what it should, as
// when someone made it anew. Only one signal waits to be read.
func (o Options) watch(ctx context.Context) <-chan struct{} {
	out := make(chan struct{}, 1)
	check := func(obj any) {
		node, ok := obj.(*corev1.Node)
		if !ok {
			return
		}
		if o.Seen != nil {
			o.Seen(node)
		}
		// Age is left to the heartbeat.
		if patch, err := patchFor(node, o.Runtimes.States(), time.Now(), 24*time.Hour); err == nil && patch == nil {
			return
		}
		select {
		case out <- struct{}{}:
		default:
		}
	}
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				options.FieldSelector = o.selector()
				return o.Client.CoreV1().Nodes().List(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				options.FieldSelector = o.selector()
				return o.Client.CoreV1().Nodes().Watch(ctx, options)
			},
		}, o.Client),
		ObjectType: &corev1.Node{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    check,
			UpdateFunc: func(_, obj any) { check(obj) },
		},
	})
	go controller.RunWithContext(ctx)
	return out
}

func (o Options) selector() string {
	return fields.OneTermEqualSelector("metadata.name", o.NodeName).String()
}
