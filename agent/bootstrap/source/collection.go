package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/a4s-io/a4s/agent/bootstrap/store"
)

// offlineVersion is the resource version of what no server said. A watch from
// there ends, with a new list, when there is a server.
const offlineVersion = "1"

// collection answers a list or a watch of one of the resources.
func (s *Source) collection(r *http.Request, res *resource, next http.RoundTripper) (*http.Response, error) {
	var o metav1.ListOptions
	query := r.URL.Query()
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &o, nil); err != nil {
		return refuse(r, http.StatusBadRequest, metav1.StatusReasonBadRequest, fmt.Sprintf("the query %q cannot be read: %v", r.URL.RawQuery, err))
	}
	if o.Watch && o.SendInitialEvents != nil {
		// A client that hears this lists and watches, in two requests.
		return refuse(r, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents: a node with bootstrap pods is told them by a list")
	}
	s.awaitProbe(r.Context())
	if !s.isOnline() {
		if o.Watch {
			return s.watchOffline(r, res)
		}
		return s.listOffline(r, res)
	}
	if o.Watch {
		return s.watchOnline(r, res, next)
	}
	return s.listOnline(r, res, next)
}

// listOffline answers with the checkpoint, and with the bootstrap pods.
func (s *Source) listOffline(r *http.Request, res *resource) (*http.Response, error) {
	return s.listCheckpoint(r, res, offlineVersion)
}

// listCheckpoint answers with what a server said until version.
func (s *Source) listCheckpoint(r *http.Request, res *resource, version string) (*http.Response, error) {
	s.mu.Lock()
	known := res.known
	objs := make([]runtime.Object, 0, len(res.items))
	for _, obj := range res.items {
		objs = append(objs, obj.DeepCopyObject())
	}
	s.mu.Unlock()
	if !known {
		return refuse(r, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "what the API server last said of this node's pods is not known")
	}
	objs, version = s.withRegistered(res, objs, version)
	list := res.list()
	if err := meta.SetList(list, objs); err != nil {
		return nil, err
	}
	if pods, ok := list.(*corev1.PodList); ok {
		s.addLocal(pods, version, false)
	}
	list.GetObjectKind().SetGroupVersionKind(res.gvk.GroupVersion().WithKind(res.gvk.Kind + "List"))
	if m, err := meta.ListAccessor(list); err == nil {
		m.SetResourceVersion(version)
	}
	return answer(r, http.StatusOK, list)
}

// listOnline passes the server's list on, remembers it, and adds the bootstrap
// pods.
func (s *Source) listOnline(r *http.Request, res *resource, next http.RoundTripper) (*http.Response, error) {
	isPods := res == s.resources[podsPath]
	if query := r.URL.Query(); query.Has("limit") {
		// A page of the pods cannot tell that one is missing.
		query.Del("limit")
		r = r.Clone(r.Context())
		r.URL.RawQuery = query.Encode()
	}
	resp, err := next.RoundTrip(r)
	if err != nil {
		if version, ok := s.detached(r, res); ok {
			return s.listCheckpoint(r, res, version)
		}
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return resp, nil
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, fmt.Errorf("reading the %s of this node: %w", res.name, err)
	}
	info, err := serializer(resp.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	obj, _, err := info.Serializer.Decode(body, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("reading the %s of this node: %w", res.name, err)
	}
	objs, err := meta.ExtractList(obj)
	if err != nil {
		return nil, fmt.Errorf("reading the %s of this node: %w", res.name, err)
	}
	if err := s.replace(res, objs); err != nil {
		return nil, fmt.Errorf("reading the %s of this node: %w", res.name, err)
	}
	if m, err := meta.ListAccessor(obj); err == nil {
		s.reached(res, m.GetResourceVersion())
	}
	if list, ok := obj.(*corev1.PodList); ok && isPods {
		s.addLocal(list, list.ResourceVersion, true)
		var merged bytes.Buffer
		if err := info.Serializer.Encode(list, &merged); err != nil {
			return nil, err
		}
		body = merged.Bytes()
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if resp.Header.Get("Content-Length") != "" {
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	return resp, nil
}

// detached tells whether a request that did not reach the server is answered
// with the state that the kubelet has already, as of version: so it hears of
// bootstrap pods that are made or deleted meanwhile. Nothing is lost by it, as
// it goes on from that version when the server is back.
func (s *Source) detached(r *http.Request, res *resource) (version string, ok bool) {
	if res != s.resources[podsPath] || r.Context().Err() != nil {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return res.version, res.version != ""
}

// reached takes note of how far a server was followed.
func (s *Source) reached(res *resource, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	res.version = version
}

// addLocal puts the bootstrap pods into a list, of the server itself or of the
// checkpoint, and takes out what stands in their place.
func (s *Source) addLocal(list *corev1.PodList, version string, fromServer bool) {
	s.streamsMu.Lock()
	s.removed = false
	s.streamsMu.Unlock()

	listed := map[types.NamespacedName]bool{}
	kept := list.Items[:0]
	for i := range list.Items {
		pod := &list.Items[i]
		pass := true
		if fromServer {
			pass = s.observe(watch.Added, pod)
		} else if e, ok := s.Store.ByKey(store.Key(pod)); ok {
			pass = e.Is(pod)
		}
		if pass {
			listed[store.Key(pod)] = true
			kept = append(kept, *pod)
		}
	}
	list.Items = kept
	for _, e := range s.Store.List() {
		switch {
		case listed[e.Key()]:
			continue
		case fromServer && e.State != store.Local && notOlder(version, e.ResourceVersion):
			s.forget(e)
			continue
		case e.State == store.Seen:
			continue // a list of the past
		}
		list.Items = append(list.Items, *asOfServer(e.Pod, version))
	}
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

// observe takes note of what the server says of a pod and reports whether the
// kubelet is to hear it.
func (s *Source) observe(event watch.EventType, pod *corev1.Pod) bool {
	e, ok := s.Store.ByKey(store.Key(pod))
	if !ok {
		return true
	}
	log := s.Log.WithFields(logrus.Fields{"pod": e.Key().String(), "uid": string(e.Pod.UID)})
	same := e.Is(pod)
	switch {
	case event == watch.Deleted && e.State == store.Local:
		log.Info("ignored the deletion of a bootstrap pod that the API server does not have yet")
		return false
	case event == watch.Deleted && !same && e.State == store.Persisted:
		return false // the one that had the name before
	case event == watch.Deleted:
		s.forget(e)
		return true
	case same && e.State != store.Seen:
		if _, err := s.Store.MarkSeen(e.Pod.UID, pod.UID, pod.ResourceVersion); err != nil {
			log.WithError(err).Error("cannot record that the API server has a bootstrap pod")
		}
		log.Info("the API server shows the bootstrap pod; its word counts from now on")
		return true
	case same:
		return true
	case e.State == store.Seen, e.State == store.Persisted && notOlder(pod.ResourceVersion, e.ResourceVersion):
		s.forget(e) // its name has another owner
		return true
	}
	s.mu.Lock()
	told := s.hidden[pod.UID]
	s.hidden[pod.UID] = true
	s.mu.Unlock()
	if !told {
		log.WithField("other", string(pod.UID)).Warn("the API server has another pod of this name on this node; it does not run while the bootstrap pod does")
	}
	return false
}

// forget ends the record of a pod that the server had and has no more.
func (s *Source) forget(e *store.Entry) {
	log := s.Log.WithFields(logrus.Fields{"pod": e.Key().String(), "uid": string(e.Pod.UID)})
	switch err := s.Store.Remove(e.Pod.UID); {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		log.WithError(err).Error("cannot remove the record of a bootstrap pod that is gone")
	default:
		log.Info("the API server has deleted the bootstrap pod")
	}
}
