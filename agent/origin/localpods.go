package origin

import (
	"errors"
	"strconv"
	"sync"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/a4s-io/a4s/agent/bootstrap/store"
)

// localPods merges the bootstrap pods of the store and the pods of the server.
type localPods struct {
	store      *store.Store
	checkpoint *checkpoint
	log        *logrus.Entry

	hiddenMu sync.Mutex
	hidden   map[types.UID]bool // pods of the server that are logged as left out

	watchesMu sync.Mutex // no call of the store under it
	watches   map[*localWatch]struct{}
	removed   bool // a pod that the last list showed is gone
}

func newLocalPods(s *store.Store, c *checkpoint, log *logrus.Entry) *localPods {
	p := &localPods{store: s, checkpoint: c, log: log, hidden: map[types.UID]bool{},
		watches: map[*localWatch]struct{}{}}
	s.OnChange(p.changed)
	return p
}

// changed is called by the store.
func (p *localPods) changed(c store.Change) {
	p.watchesMu.Lock()
	defer p.watchesMu.Unlock()
	if c.Removed {
		p.removed = true
	}
	for w := range p.watches {
		w.queue = append(w.queue, c)
		select {
		case w.signal <- struct{}{}:
		default: // it has one waiting
		}
	}
}

// addTo puts the bootstrap pods into a list, of the server itself or of the
// checkpoint, and takes out the pods in their place.
func (p *localPods) addTo(list *corev1.PodList, version string, fromServer bool) (changed bool) {
	p.watchesMu.Lock()
	p.removed = false
	p.watchesMu.Unlock()

	listed := map[types.NamespacedName]bool{}
	kept := list.Items[:0]
	for i := range list.Items {
		pod := &list.Items[i]
		pass := true
		if fromServer {
			pass = p.observe(watch.Added, pod)
		} else if e, ok := p.store.ByKey(store.Key(pod)); ok {
			pass = e.Is(pod)
		}
		if pass {
			listed[store.Key(pod)] = true
			kept = append(kept, *pod)
		}
	}
	changed = len(kept) != len(list.Items)
	list.Items = kept
	for _, e := range p.store.List() {
		switch {
		case listed[e.Key()]:
			continue
		case fromServer && e.State != store.Local && notOlder(version, e.ResourceVersion):
			p.forget(e)
			continue
		case e.State == store.Seen:
			continue // a list of the past
		}
		list.Items = append(list.Items, *asOfServer(e.Pod, version))
		changed = true
	}
	return changed
}

// notOlder compares resource versions. What cannot be compared is older.
func notOlder(list, pod string) bool {
	a, err := strconv.ParseUint(list, 10, 64)
	b, errPod := strconv.ParseUint(pod, 10, 64)
	return err == nil && errPod == nil && a >= b
}

// asOfServer is a bootstrap pod as it would come from a server: a client goes
// on from the resource version that it saw last.
func asOfServer(pod *corev1.Pod, version string) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	pod.ResourceVersion = version
	return pod
}

// observe takes note of an event or a list entry of the server and reports
// whether the kubelet is to see it.
func (p *localPods) observe(event watch.EventType, pod *corev1.Pod) bool {
	e, ok := p.store.ByKey(store.Key(pod))
	if !ok {
		return true
	}
	log := p.log.WithFields(logrus.Fields{"pod": e.Key().String(), "uid": string(e.Pod.UID)})
	same := e.Is(pod)
	switch {
	case event == watch.Deleted && e.State == store.Local:
		log.Info("ignored the deletion of a bootstrap pod that the API server does not have yet")
		return false
	case event == watch.Deleted && !same && e.State == store.Persisted:
		return false // the one that had the name before
	case event == watch.Deleted:
		p.forget(e)
		return true
	case same && e.State != store.Seen:
		if _, err := p.store.MarkSeen(e.Pod.UID, pod.UID, pod.ResourceVersion); err != nil {
			log.WithError(err).Error("cannot record that the API server has a bootstrap pod")
		}
		log.Info("the API server shows the bootstrap pod; its word counts from now on")
		return true
	case same:
		return true
	case e.State == store.Seen, e.State == store.Persisted && notOlder(pod.ResourceVersion, e.ResourceVersion):
		p.forget(e) // its name has another owner
		return true
	}
	p.hiddenMu.Lock()
	logged := p.hidden[pod.UID]
	p.hidden[pod.UID] = true
	p.hiddenMu.Unlock()
	if !logged {
		log.WithField("other", string(pod.UID)).
			Warn("the API server has another pod of this name on this node; " +
				"it does not run while the bootstrap pod does")
	}
	return false
}

// forget removes the record of a pod that the server had and has no more.
func (p *localPods) forget(e *store.Entry) {
	log := p.log.WithFields(logrus.Fields{"pod": e.Key().String(), "uid": string(e.Pod.UID)})
	switch err := p.store.Remove(e.Pod.UID); {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		log.WithError(err).Error("cannot remove the record of a bootstrap pod that is gone")
	default:
		log.Info("the API server has deleted the bootstrap pod")
	}
}
