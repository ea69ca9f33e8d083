package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/apis/core"
	podstore "k8s.io/kubernetes/pkg/registry/core/pod/storage"

	"github.com/a4s-io/a4s/internal/bootstrapapi"
)

// Pods gives the pods that nodes persist their UIDs.
type Pods struct {
	lister corelisters.PodLister
	synced func() bool

	mu sync.Mutex
	// taken are the UIDs of pods that are being stored, and of those that
	// were and that the lister may not know yet.
	taken map[types.UID]holder
}

// holder is the pod that has a UID.
type holder struct {
	namespace, name string
	stored          bool
}

// New makes it; Admission and Store put it in place.
func New() *Pods { return &Pods{taken: map[types.UID]holder{}} }

// know sets what the pods of the cluster are known by. A restarted API server
// has other informers.
func (p *Pods) know(pods coreinformers.PodInformer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lister, p.synced = pods.Lister(), pods.Informer().HasSynced
	// One that was deleted before another was stored would be kept for ever.
	// The error is that of an informer that has stopped.
	_, _ = pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: p.forget})
}

// forget ends what is known of the UID of a pod that is gone.
func (p *Pods) forget(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[pod.UID].stored {
		delete(p.taken, pod.UID)
	}
}

// Store extends upstream's storage of the core group, by path.
func (p *Pods) Store(storage map[string]rest.Storage) error {
	pods, ok := storage["pods"].(*podstore.REST)
	if !ok {
		return fmt.Errorf("pods are stored as %T, which knows no UIDs of nodes", storage["pods"])
	}
	if pods.BeginCreate != nil {
		return errors.New("something else begins the creation of pods already")
	}
	// Upstream calls it when it has filled in the UID, in all ways to create.
	pods.BeginCreate = p.begin
	return nil
}

func nothing(context.Context, bool) {}

// begin sets the UID of a pod that a node persists. The annotation with it ends
// here: a stored pod has a UID, and one that is copied from it needs another.
func (p *Pods) begin(
	ctx context.Context, obj runtime.Object, options *metav1.CreateOptions,
) (genericregistry.FinishFunc, error) {
	pod, ok := obj.(*core.Pod)
	if !ok {
		return nothing, nil
	}
	value, asked := pod.Annotations[bootstrapapi.UIDAnnotation]
	u, _ := request.UserFrom(ctx)
	node, ok := offered(ctx, u, pod)
	if info, found := request.RequestInfoFrom(ctx); !found || info.Verb != "create" {
		ok = false // server-side apply
	}
	if !ok {
		if asked {
			return nil, forbidden(pod,
				fmt.Errorf("only a node sets the annotation %s, on a pod that it has run with the annotation %s=%s",
					bootstrapapi.UIDAnnotation, bootstrapapi.SourceAnnotation, bootstrapapi.Source))
		}
		if pod.Annotations[bootstrapapi.SourceAnnotation] == bootstrapapi.Source {
			delete(pod.Annotations, bootstrapapi.SourceAnnotation)
		}
		return nothing, nil
	}
	// Admission did this before, unless the administrator did without it.
	namespace := request.NamespaceValue(ctx)
	if err := check(node, namespace, pod); err != nil {
		return nil, forbidden(pod, err)
	}
	where := field.NewPath("metadata", "annotations").Key(bootstrapapi.UIDAnnotation)
	uid, err := readUID(value)
	if err != nil {
		return nil, invalid(pod, field.Invalid(where, value, err.Error()))
	}
	if err := p.take(uid, namespace, pod.Name); err != nil {
		if errors.Is(err, errTaken) {
			return nil, invalid(pod, field.Duplicate(where, value))
		}
		return nil, err
	}
	delete(pod.Annotations, bootstrapapi.UIDAnnotation)
	pod.UID = uid
	return func(_ context.Context, stored bool) {
		p.settle(uid, namespace, pod.Name, stored && !dryrun.IsDryRun(options.DryRun))
	}, nil
}

// errTaken is a UID that is another's.
var errTaken = errors.New("the UID is in use")

// take reserves a UID for a pod. Of the same pod, if it is there already, the
// storage says so.
func (p *Pods) take(uid types.UID, namespace, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lister == nil || !p.synced() {
		return apierrors.NewServerTimeout(core.Resource("pods"), "create", 1)
	}
	all, err := p.lister.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("looking for other pods with the UID: %w", err)
	}
	for _, pod := range all {
		if h, ok := p.taken[pod.UID]; ok && h.stored {
			delete(p.taken, pod.UID) // the lister remembers it from now on
		}
		if pod.UID == uid && (pod.Namespace != namespace || pod.Name != name) {
			return errTaken
		}
		// The garbage collector tells owners by their UIDs.
		for _, owner := range pod.OwnerReferences {
			if owner.UID == uid {
				return errTaken
			}
		}
	}
	h, ok := p.taken[uid]
	if ok && (h.namespace != namespace || h.name != name) {
		return errTaken
	}
	if !ok {
		p.taken[uid] = holder{namespace: namespace, name: name}
	}
	return nil
}

// settle ends a reservation.
func (p *Pods) settle(uid types.UID, namespace, name string, stored bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if stored {
		p.taken[uid] = holder{namespace: namespace, name: name, stored: true}
	} else if !p.taken[uid].stored {
		delete(p.taken, uid)
	}
}

func forbidden(pod *core.Pod, err error) error {
	return apierrors.NewForbidden(core.Resource("pods"), pod.Name, err)
}

func invalid(pod *core.Pod, err *field.Error) error {
	return apierrors.NewInvalid(core.Kind("Pod"), pod.Name, field.ErrorList{err})
}
