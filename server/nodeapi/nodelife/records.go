package nodelife

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"

	"github.com/a4s-io/a4s/internal/pki"
)

// ErrNotYet is that of a server that has just started.
var ErrNotYet = errors.New("this server has just started and does not know the nodes' certificates yet")

// ErrDead is a certificate that is not good any more.
var ErrDead = errors.New("the certificate of this node is not good any more: its Node was deleted, or its " +
	"credential revoked; start its agent again with the token, and it gets another one")

// Records are those of all nodes. Run must work for them to be known.
type Records struct {
	client kubernetes.Interface
	log    *logrus.Entry
	now    func() time.Time

	mu       sync.Mutex
	synced   bool
	records  map[string]known
	watchers []func(node string)
}

// known is a record as it was in a version of its Secret; without one it was just written.
type known struct {
	Record
	uid     types.UID
	version string
}

// New returns records, which client reads and writes.
func New(client kubernetes.Interface, log *logrus.Entry) *Records {
	return &Records{client: client, log: log, now: time.Now, records: map[string]known{}}
}

// OnChange has f called with the name of each node whose record changed. It must be called
// before Run.
func (r *Records) OnChange(f func(node string)) { r.watchers = append(r.watchers, f) }

// Run follows the records until ctx ends; then it returns nil.
func (r *Records) Run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(r.client, 0,
		informers.WithNamespace(metav1.NamespaceSystem),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("type", string(SecretType)).String()
		}),
		informers.WithTransform(func(obj any) (any, error) {
			if s, ok := obj.(*corev1.Secret); ok {
				s.ManagedFields, s.Annotations, s.Labels = nil, nil, nil
			}
			return obj, nil
		}))
	defer factory.Shutdown()
	handler, err := factory.Core().V1().Secrets().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    r.saw,
		UpdateFunc: func(_, obj any) { r.saw(obj) },
		DeleteFunc: r.lost,
	})
	if err != nil {
		return fmt.Errorf("watching the records of nodes: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // before Shutdown, which waits for the informers
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		return nil
	}
	r.mu.Lock()
	r.synced = true
	r.mu.Unlock()
	<-ctx.Done()
	return nil
}

func (r *Records) saw(obj any) {
	s, ok := obj.(*corev1.Secret)
	if !ok {
		return
	}
	node, ok := nodeOf(s)
	if !ok {
		return
	}
	record, err := read(s)
	if err != nil {
		r.log.WithError(err).WithField("node", node).Error("No certificate of this node is good: its record cannot " +
			"be read")
	}
	r.set(node, known{record, s.UID, s.ResourceVersion})
}

func (r *Records) lost(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	s, ok := obj.(*corev1.Secret)
	if !ok {
		return
	}
	if node, ok := nodeOf(s); ok {
		r.mu.Lock()
		if r.records[node].uid == s.UID {
			delete(r.records, node)
		}
		r.mu.Unlock()
		r.tell(node)
	}
}

// set takes note of a record, unless a newer one is known.
func (r *Records) set(node string, k known) {
	r.mu.Lock()
	before, had := r.records[node]
	if had && before.uid == k.uid && newer(before.version, k.version) {
		r.mu.Unlock()
		return
	}
	r.records[node] = k
	r.mu.Unlock()
	if !had || !before.same(k.Record) {
		r.tell(node)
	}
}

// newer reports whether one version of an object came after another.
func newer(a, b string) bool { return len(a) > len(b) || len(a) == len(b) && a > b }

func (r *Records) tell(node string) {
	for _, f := range r.watchers {
		f(node)
	}
}

// Of is the record of a node, false for none.
func (r *Records) Of(node string) (Record, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.synced {
		return Record{}, false, ErrNotYet
	}
	k, ok := r.records[node]
	return k.Record, ok, nil
}

// Alive returns why the certificate of a node that says a life, or "", is not good.
func (r *Records) Alive(node, life string) error {
	record, ok, err := r.Of(node)
	if err != nil || !ok || record.Good(life) {
		return err
	}
	return ErrDead
}

// Joined are the addresses that a node joined with, false if nobody wrote them down.
func (r *Records) Joined(_ context.Context, node string) ([]netip.Addr, bool, error) {
	record, ok, err := r.Of(node)
	return record.Addresses, ok && len(record.Addresses) > 0, err
}

// Known reports whether a node has a record.
func (r *Records) Known(node string) (bool, error) {
	_, ok, err := r.Of(node)
	return ok, err
}

// Change changes the record of a node, as it is in the datastore, and returns what it is then.
// change gets false for a record that is not there.
func (r *Records) Change(
	ctx context.Context, node string, change func(record *Record, there bool) error,
) (Record, error) {
	secrets := r.client.CoreV1().Secrets(metav1.NamespaceSystem)
	var out Record
	err := retry.OnError(retry.DefaultBackoff, func(err error) bool {
		return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
	}, func() error {
		s, err := secrets.Get(ctx, node+suffix, metav1.GetOptions{})
		there := err == nil
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		var record, was Record
		if !there {
			s = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: node + suffix, Namespace: metav1.NamespaceSystem},
				Type: SecretType}
		} else if record, err = read(s); err != nil {
			r.log.WithError(err).WithField("node", node).Warn("The record of this node is made anew")
			record = Record{Ended: r.now()}
		}
		was = record
		if err := change(&record, there); err != nil {
			return err
		}
		out = record
		if there && record.same(was) {
			r.set(node, known{record, s.UID, s.ResourceVersion})
			return nil
		}
		record.write(s)
		if there {
			s, err = secrets.Update(ctx, s, metav1.UpdateOptions{})
		} else {
			s, err = secrets.Create(ctx, s, metav1.CreateOptions{})
		}
		if err == nil {
			r.set(node, known{record, s.UID, s.ResourceVersion})
		}
		return err
	})
	if err != nil {
		return Record{}, fmt.Errorf("writing the record of node %s: %w", node, err)
	}
	return out, nil
}

// End ends the life of a node whose Node goes, and all its certificates.
func (r *Records) End(ctx context.Context, node string) error {
	_, err := r.Change(ctx, node, func(record *Record, _ bool) error {
		if record.Life != "" || record.Ended.IsZero() {
			*record = Record{Ended: r.now().Truncate(time.Second)}
		}
		return nil
	})
	return err
}

// Revoke is End for a Node that stays.
func (r *Records) Revoke(ctx context.Context, node string) error {
	if err := r.End(ctx, node); err != nil {
		return err
	}
	return r.Mark(ctx, node, Record{})
}

// Begin begins a life if there is none.
func (r *Record) Begin() {
	if r.Life == "" {
		r.Life = string(uuid.NewUUID())
	}
}

// Mark writes on the Node what other partitions go by. One that registers later gets it then.
func (r *Records) Mark(ctx context.Context, node string, record Record) error {
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, pki.NodeLife, record.Mark())
	_, err := r.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("marking node %s: %w", node, err)
	}
	return nil
}

// Sweep forgets lives that ended so long ago that their certificates have expired.
func (r *Records) Sweep(ctx context.Context, expired time.Duration) error {
	r.mu.Lock()
	var old []string
	for node, k := range r.records {
		if k.Life == "" && !k.Ended.IsZero() && r.now().Sub(k.Ended) > expired {
			old = append(old, node)
		}
	}
	r.mu.Unlock()
	var errs []error
	secrets := r.client.CoreV1().Secrets(metav1.NamespaceSystem)
	for _, node := range old {
		s, err := secrets.Get(ctx, node+suffix, metav1.GetOptions{})
		if err == nil {
			if record, bad := read(s); bad == nil && record.Life == "" {
				err = secrets.Delete(ctx, s.Name,
					metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.UID,
						ResourceVersion: &s.ResourceVersion}})
			}
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
