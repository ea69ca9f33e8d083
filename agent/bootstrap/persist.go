package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/a4s-io/a4s/agent/bootstrap/store"
	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/internal/bootstrapapi"
	"github.com/a4s-io/a4s/internal/component"
)

// PersisterName is the name of the component that offers pods to the server.
const PersisterName = "bootstrap-pods"

const (
	offerTimeout = 15 * time.Second
	minBackoff   = time.Second
	maxBackoff   = time.Minute
	// logEvery is how often the same failure is logged.
	logEvery = 20
)

// Persister offers the pods of a store to the API server for ever.
type Persister struct {
	// Store holds the pods.
	Store *store.Store
	// Pods is the node's client.
	Pods corev1client.PodsGetter
	// Log is optional.
	Log *logrus.Entry

	// backoff is that of a pod's first pause; tests make it short.
	backoff time.Duration
}

// attempt is what is remembered about a pod between offers.
type attempt struct {
	wait  time.Duration
	next  time.Time
	count int
	last  string
}

// Component returns the loop.
func (p *Persister) Component() component.Component {
	if p.Log == nil {
		p.Log = logrus.WithField("component", PersisterName)
	}
	if p.backoff == 0 {
		p.backoff = minBackoff
	}
	return component.Component{Name: PersisterName, Run: p.run}
}

func (p *Persister) run(ctx context.Context, ready func()) error {
	wake := make(chan struct{}, 1)
	p.Store.OnChange(func(c store.Change) {
		if c.Created {
			select {
			case wake <- struct{}{}:
			default: // it looks again anyway
			}
		}
	})
	attempts := map[types.UID]*attempt{}
	ready()
	for {
		next := p.round(ctx, attempts)
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-time.After(next):
		}
	}
}

// parallel is how many pods are offered at once.
const parallel = 8

// round offers every pod whose time has come, and returns when to come again.
func (p *Persister) round(ctx context.Context, attempts map[types.UID]*attempt) time.Duration {
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	local := map[types.UID]bool{}
	for _, e := range p.Store.List() {
		if e.State != store.Local || e.Pod.DeletionTimestamp != nil {
			continue
		}
		uid := e.Pod.UID
		local[uid] = true
		a := attempts[uid]
		if a == nil {
			a = &attempt{wait: p.backoff}
			attempts[uid] = a
		}
		if ctx.Err() != nil || time.Now().Before(a.next) {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			p.try(ctx, uid, a)
		})
	}
	wg.Wait()
	next := maxBackoff
	for uid, a := range attempts {
		if !local[uid] {
			delete(attempts, uid)
			continue
		}
		next = min(next, time.Until(a.next))
	}
	return max(next, 0)
}

// try offers one pod and plans the next time.
func (p *Persister) try(ctx context.Context, uid types.UID, a *attempt) {
	e, err := p.Store.BeginOffer(uid)
	if err != nil {
		a.next = time.Now().Add(a.wait) // somebody asked for its end, or it is gone
		return
	}
	log := p.Log.WithFields(logrus.Fields{"pod": e.Key().String(), "uid": string(uid)})
	offerCtx, cancel := context.WithTimeout(ctx, offerTimeout)
	defer cancel()
	pod, err := p.offer(offerCtx, e.Pod)
	if err == nil {
		if _, err = p.Store.MarkPersisted(uid, pod.UID, pod.ResourceVersion); err == nil {
			p.tell(log, uid, pod)
			return
		}
	}
	if _, endErr := p.Store.EndOffer(uid, err.Error(), e.Doubt || ambiguous(err)); endErr != nil {
		log.WithError(endErr).Debug("the pod is gone")
	}
	if ctx.Err() != nil {
		return
	}
	if a.count++; err.Error() != a.last || a.count%logEvery == 0 {
		log.WithError(err).WithField("tries", a.count).
			Warn("the API server has not taken the bootstrap pod yet; it keeps running and is offered again")
		a.last = err.Error()
	}
	// Jitter keeps the nodes of a cluster from coming back in step.
	a.next = time.Now().Add(a.wait/2 + rand.N(a.wait))
	a.wait = min(2*a.wait, maxBackoff)
	if errors.Is(err, origin.ErrNotConnected) || utilnet.IsConnectionRefused(err) {
		// Nobody is bothered by a look, and a control plane that runs in these
		// very pods is waited for.
		a.wait = min(a.wait, 5*p.backoff)
	}
}

// tell logs what became of a pod.
func (p *Persister) tell(log *logrus.Entry, uid types.UID, pod *corev1.Pod) {
	if pod.UID == uid {
		log.Info("the API server has the bootstrap pod, under the same UID; from now on it belongs to the server")
		return
	}
	log.WithField("newUID", string(pod.UID)).
		Warn("the API server has the bootstrap pod under another UID, so the kubelet restarts its containers")
}

// offer returns the server's pod, be it new or from an earlier offer.
func (p *Persister) offer(ctx context.Context, local *corev1.Pod) (*corev1.Pod, error) {
	pods := p.Pods.Pods(local.Namespace)
	pod, err := pods.Create(ctx, offered(local), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return pod, err
	}
	there, getErr := pods.Get(ctx, local.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(getErr):
		return nil, err // it went away in between
	case getErr != nil:
		return nil, getErr
	case there.UID == local.UID || there.Annotations[bootstrapapi.UIDAnnotation] == string(local.UID):
		return there, nil
	}
	return nil, &foreignError{name: local.Namespace + "/" + local.Name, uid: there.UID}
}

// foreignError is another pod that has the name on the server.
type foreignError struct {
	name string
	uid  types.UID
}

func (e *foreignError) Error() string {
	return fmt.Sprintf("the API server has another pod %s with the UID %s; delete one of the two", e.name, e.uid)
}

// offered returns what the server is asked to create.
func offered(local *corev1.Pod) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: local.Name, Namespace: local.Namespace, UID: local.UID,
		Labels: local.Labels, Annotations: map[string]string{},
	}, Spec: local.Spec}
	for key, value := range local.Annotations {
		pod.Annotations[key] = value
	}
	pod.Annotations[bootstrapapi.SourceAnnotation] = bootstrapapi.Source
	pod.Annotations[bootstrapapi.UIDAnnotation] = string(local.UID)
	return pod
}

// ambiguous reports whether the server may have done what it was asked to.
func ambiguous(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsInternalError(err)
	}
	return !utilnet.IsConnectionRefused(err) && !errors.Is(err, origin.ErrNotConnected)
}
