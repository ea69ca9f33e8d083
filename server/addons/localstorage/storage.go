package localstorage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// Name is the name of the component.
const Name = "local-storage"

// Pauses after a failure.
const (
	minRetry = time.Second
	maxRetry = 5 * time.Minute
)

// byNode is the index of volumes by their node.
const byNode = "a4s.io/node"

// Options configure a Storage.
type Options struct {
	// Client has all rights.
	Client kubernetes.Interface
	// Path is where nodes have the directories.
	Path string
	// Pool is where informers share what they keep with others.
	Pool *interning.Pool
	Log  *logrus.Entry
}

// Storage is the provisioner, and what nodes ask for their work.
type Storage struct {
	opts   Options
	client kubernetes.Interface

	mu      sync.Mutex
	volumes cache.Indexer // nil while they are not known
	changed chan struct{}
	events  record.EventRecorder
}

// New returns a Storage that knows nothing until its component runs.
func New(o Options) *Storage {
	return &Storage{opts: o, client: o.Client, changed: make(chan struct{}), events: &record.FakeRecorder{}}
}

// Component returns what knows the volumes, for their nodes to ask. Every
// server runs it.
func (s *Storage) Component() component.Component {
	return component.Component{Name: Name, Run: s.run}
}

// Provisioner returns what makes volumes and lets them go. One server runs it.
func (s *Storage) Provisioner() component.Component {
	return component.Component{Name: Name + "-provisioner", Run: s.provision}
}

func (s *Storage) run(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: s.client.CoreV1().Events("")})
	defer broadcaster.Shutdown()
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, 0, informers.WithTransform(trim))
	defer factory.Shutdown()
	defer cancel() // before Shutdown, which waits
	volumes := factory.Core().V1().PersistentVolumes().Informer()
	if err := volumes.AddIndexers(cache.Indexers{byNode: func(obj any) ([]string, error) {
		if volume, ok := obj.(*corev1.PersistentVolume); ok && Ours(volume) {
			return []string{nodeOf(volume)}, nil
		}
		return nil, nil
	}}); err != nil {
		return fmt.Errorf("indexing persistent volumes: %w", err)
	}
	if _, err := volumes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { s.tell() }, UpdateFunc: func(_, _ any) { s.tell() }, DeleteFunc: func(any) { s.tell() },
	}); err != nil {
		return fmt.Errorf("watching persistent volumes: %w", err)
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), volumes.HasSynced) {
		return nil // ctx ended
	}
	s.know(volumes.GetIndexer(), broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: Provisioner}))
	defer s.know(nil, &record.FakeRecorder{})
	ready()
	<-ctx.Done()
	return nil
}

// trim keeps what is read here of a volume, which is next to nothing of those
// of others.
func trim(obj any) (any, error) {
	volume, ok := obj.(*corev1.PersistentVolume)
	if !ok {
		return obj, nil
	}
	kept := &corev1.PersistentVolume{TypeMeta: volume.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Name: volume.Name, UID: volume.UID, ResourceVersion: volume.ResourceVersion}}
	if Ours(volume) {
		kept.DeletionTimestamp, kept.Finalizers = volume.DeletionTimestamp, volume.Finalizers
		kept.Annotations = map[string]string{ProvisionedBy: Provisioner}
		if state, ok := volume.Annotations[State]; ok {
			kept.Annotations[State] = state
		}
		kept.Spec.Local, kept.Spec.NodeAffinity = volume.Spec.Local, volume.Spec.NodeAffinity
		kept.Spec.PersistentVolumeReclaimPolicy = volume.Spec.PersistentVolumeReclaimPolicy
		kept.Status.Phase = volume.Status.Phase
	}
	return kept, nil
}

// provision runs the library's controller until ctx ends.
func (s *Storage) provision(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, controller.DefaultResyncPeriod,
		informers.WithTransform(s.opts.Pool.Transform))
	var workers sync.WaitGroup
	defer workers.Wait()
	defer factory.Shutdown()
	defer cancel() // before those that wait
	c := controller.NewProvisionController(ctx, s.client, Provisioner, s,
		controller.LeaderElection(false), // its own ends the process
		controller.AddFinalizer(true),
		controller.VolumeName(volumeName),
		controller.ClaimsInformer(factory.Core().V1().PersistentVolumeClaims().Informer()),
		controller.VolumesInformer(factory.Core().V1().PersistentVolumes().Informer()),
		controller.ClassesInformer(factory.Storage().V1().StorageClasses().Informer()),
		controller.FailedProvisionThreshold(0),
		controller.FailedDeleteThreshold(0),
		controller.RateLimiter(workqueue.NewTypedMaxOfRateLimiter(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](minRetry, maxRetry),
			&workqueue.TypedBucketRateLimiter[string]{Limiter: rate.NewLimiter(50, 100)},
		)),
		controller.CreateProvisionedPVBackoff(wait.Backoff{Duration: minRetry, Factor: 2, Steps: 4}),
	)
	c.ControllerWaitGroup(&workers)
	factory.StartWithContext(ctx)
	ready()
	c.Run(ctx)
	return nil
}

func (s *Storage) know(volumes cache.Indexer, events record.EventRecorder) {
	s.mu.Lock()
	s.volumes, s.events = volumes, events
	s.mu.Unlock()
	s.tell()
}

// tell wakes who waits for a change.
func (s *Storage) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Storage) now() (cache.Indexer, <-chan struct{}, record.EventRecorder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.volumes, s.changed, s.events
}

// Work says what a node has to do, and when that may have changed.
func (s *Storage) Work(node string) (work joinapi.LocalVolumes, changed <-chan struct{}, ok bool) {
	volumes, changed, _ := s.now()
	if volumes == nil {
		return work, nil, false
	}
	work.Volumes = []joinapi.LocalVolume{}
	found, err := volumes.ByIndex(byNode, node)
	if err != nil {
		return work, nil, false // there is no such index: cannot be
	}
	for _, obj := range found {
		volume, ok := obj.(*corev1.PersistentVolume)
		if !ok {
			continue
		}
		if v := (joinapi.LocalVolume{Name: volume.Name, UID: string(volume.UID),
			Path: volume.Spec.Local.Path}); toDo(volume, &v) {
			work.Volumes = append(work.Volumes, v)
		}
	}
	slices.SortFunc(work.Volumes, func(a, b joinapi.LocalVolume) int { return cmp.Compare(a.Name, b.Name) })
	return work, changed, true
}

// toDo reports whether there is something to do for a volume, and what.
func toDo(volume *corev1.PersistentVolume, v *joinapi.LocalVolume) bool {
	state := volume.Annotations[State]
	v.Remove = volume.Status.Phase == corev1.VolumeReleased &&
		volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	if v.Remove {
		return state != Removed && slices.Contains(volume.Finalizers, Finalizer)
	}
	return state == "" && volume.DeletionTimestamp == nil
}

// errStale is an answer about what is asked no longer.
var errStale = errors.New("the volume has another state by now")

// Done records what a node says about one of its volumes.
func (s *Storage) Done(ctx context.Context, node string, done joinapi.LocalVolumeDone) error {
	_, _, events := s.now()
	notFound := apierrors.NewNotFound(corev1.Resource("persistentvolumes"), done.Name)
	volume, err := s.client.CoreV1().PersistentVolumes().Get(ctx, done.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if string(volume.UID) != done.UID || !Ours(volume) || nodeOf(volume) != node {
		return notFound
	}
	var asked joinapi.LocalVolume
	if !toDo(volume, &asked) || asked.Remove != done.Removed {
		s.opts.Log.WithError(errStale).WithField("volume", done.Name).Debugf("node %s answered", node)
		return nil
	}
	if done.Error != "" {
		reason := "VolumeFailedMake"
		if done.Removed {
			reason = "VolumeFailedDelete"
		}
		events.Eventf(volume, corev1.EventTypeWarning, reason, "node %s: %s", node, done.Error)
		return nil
	}
	state := Made
	if done.Removed {
		state = Removed
	}
	// Of this object and no later one of its name.
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, volume.UID, State, state)
	_, err = s.client.CoreV1().PersistentVolumes().Patch(ctx, volume.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: "a4s"})
	return err
}
