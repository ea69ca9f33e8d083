package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/agent/bootstrap/store"
	"github.com/a4s-io/a4s/internal/bootstrapapi"
)

var podResource = schema.GroupResource{Resource: "pods"}

// Checker makes a pod of what was posted. Its errors are *apierrors.StatusError.
type Checker interface {
	Decode(body []byte, isYAML bool) (*corev1.Pod, error)
	Complete(pod *corev1.Pod, now time.Time) (*corev1.Pod, error)
}

// Options make an API.
type Options struct {
	Store   *store.Store
	Checker Checker
	// Live returns a pod of this node as the API server last showed it, nil
	// if it did not.
	Live func(key types.NamespacedName) *corev1.Pod
	// Lookup asks the API server for a pod.
	Lookup func(ctx context.Context, key types.NamespacedName) (*corev1.Pod, error)
	// Log is optional.
	Log *logrus.Entry
}

// API is the handler of the bootstrap pod API.
type API struct {
	Options
	log *logrus.Entry
	now func() time.Time
}

// New returns the API.
func New(o Options) *API {
	if o.Log == nil {
		o.Log = logrus.WithField("component", Name)
	}
	return &API{Options: o, log: o.Log, now: time.Now}
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	code, obj, err := a.route(w, r)
	if err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			a.log.WithError(err).Error("a request to the bootstrap pod API failed")
			status = apierrors.NewInternalError(err)
		}
		s := status.Status()
		s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		code, obj = int(s.Code), &s
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(obj); err != nil {
		a.log.WithError(err).Debug("the client of the bootstrap pod API left")
	}
}

func (a *API) route(w http.ResponseWriter, r *http.Request) (int, any, error) {
	if !allowed(r, a.log) {
		return 0, nil, refusal(http.StatusForbidden, metav1.StatusReasonForbidden,
			"only root, or the user that a4s runs as, may use this API")
	}
	uid, onePod := strings.CutPrefix(r.URL.Path, bootstrapapi.PathPods+"/")
	switch {
	case r.URL.Path == bootstrapapi.PathPods:
		switch r.Method {
		case http.MethodGet:
			return http.StatusOK, a.list(), nil
		case http.MethodPost:
			pod, err := a.create(w, r)
			return http.StatusCreated, pod, err
		}
		return notAllowed(w, r, http.MethodGet, http.MethodPost)
	case onePod && uid != "" && !strings.Contains(uid, "/"):
		switch r.Method {
		case http.MethodGet:
			e, err := a.find(uid)
			if err != nil {
				return 0, nil, err
			}
			return http.StatusOK, a.show(e), nil
		case http.MethodDelete:
			e, err := a.delete(r.Context(), uid)
			if err != nil {
				return 0, nil, err
			}
			return http.StatusOK, a.show(e), nil
		}
		return notAllowed(w, r, http.MethodDelete, http.MethodGet)
	}
	return 0, nil, refusal(http.StatusNotFound, metav1.StatusReasonNotFound,
		fmt.Sprintf("there is nothing at %q; there are %s and %s/<uid>", r.URL.Path, bootstrapapi.PathPods,
			bootstrapapi.PathPods))
}

func refusal(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code,
		Reason: reason, Message: message}}
}

func notAllowed(w http.ResponseWriter, r *http.Request, methods ...string) (int, any, error) {
	w.Header().Set("Allow", strings.Join(methods, ", "))
	return 0, nil, refusal(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
		fmt.Sprintf("%s is not possible here; possible are %s", r.Method, strings.Join(methods, " and ")))
}

// create runs the pod in the body.
func (a *API) create(w http.ResponseWriter, r *http.Request) (*corev1.Pod, error) {
	isYAML := false
	switch mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); {
	case r.Header.Get("Content-Type") == "", err == nil && mediaType == "application/json":
	case err == nil &&
		(mediaType == "application/yaml" || mediaType == "application/x-yaml" || mediaType == "text/yaml"):
		isYAML = true
	default:
		return nil, refusal(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
			fmt.Sprintf("a body of type %q is not understood; possible are application/json and application/yaml",
				r.Header.Get("Content-Type")))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bootstrapapi.MaxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("a pod is at most %d bytes",
			bootstrapapi.MaxBody))
	case err != nil:
		return nil, apierrors.NewBadRequest("reading the body: " + err.Error())
	}
	posted, err := a.Checker.Decode(body, isYAML)
	if err != nil {
		return nil, err
	}
	pod, err := a.Checker.Complete(posted, a.now())
	if err != nil {
		return nil, err
	}
	if a.Live(store.Key(pod)) != nil {
		return nil, exists(pod)
	}
	e, err := a.Store.Create(pod)
	switch {
	case errors.Is(err, store.ErrExists):
		return nil, exists(pod)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		a.log.WithError(err).Error("cannot keep a bootstrap pod")
		return nil, refusal(http.StatusInsufficientStorage, "InsufficientStorage",
			"the pod was not created: "+err.Error())
	case err != nil:
		return nil, err
	}
	a.log.WithFields(logrus.Fields{"pod": e.Key().String(), "uid": string(pod.UID)}).Info("created a bootstrap pod")
	return a.show(e), nil
}

func exists(pod *corev1.Pod) error {
	err := apierrors.NewAlreadyExists(podResource, pod.Name)
	err.ErrStatus.Message = fmt.Sprintf("pod %q exists in namespace %q on this node", pod.Name, pod.Namespace)
	return err
}

func (a *API) find(uid string) (*store.Entry, error) {
	if e, ok := a.Store.Get(types.UID(uid)); ok {
		return e, nil
	}
	return nil, apierrors.NewNotFound(podResource, uid)
}

func (a *API) list() *corev1.PodList {
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{}}
	for _, e := range a.Store.List() {
		list.Items = append(list.Items, *a.show(e))
	}
	return list
}

// show returns a pod as this API tells it.
func (a *API) show(e *store.Entry) *corev1.Pod {
	pod := e.Pod.DeepCopy()
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	if e.State != store.Local {
		if live := a.Live(e.Key()); live != nil && live.UID == e.ServerUID {
			live.DeepCopy().Status.DeepCopyInto(&pod.Status)
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = live.DeletionTimestamp,
				live.DeletionGracePeriodSeconds
		}
		pod.UID = e.ServerUID
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[bootstrapapi.PersistedAnnotation] = fmt.Sprint(e.State != store.Local)
	if e.Message != "" {
		pod.Annotations[bootstrapapi.MessageAnnotation] = e.Message
	}
	return pod
}

// delete asks for the end of a pod that no server has.
func (a *API) delete(ctx context.Context, uid string) (*store.Entry, error) {
	e, err := a.find(uid)
	if err != nil {
		return nil, err
	}
	if e.State != store.Local {
		return a.forget(ctx, e)
	}
	if e.Doubt {
		// The server may have taken it without an answer that reached us.
		switch pod, err := a.Lookup(ctx, e.Key()); {
		case err == nil && e.Is(pod):
			if e, err = a.Store.MarkPersisted(e.Pod.UID, pod.UID, pod.ResourceVersion); err != nil {
				return nil, err
			}
			return a.forget(ctx, e)
		case err != nil && !apierrors.IsNotFound(err):
			return nil, apierrors.NewServiceUnavailable(
				"the API server may have taken the pod already and cannot be asked now: " + err.Error())
		}
	}
	e, err = a.Store.MarkDeleted(e.Pod.UID, a.now())
	switch {
	case errors.Is(err, store.ErrPersisted), errors.Is(err, store.ErrBusy):
		return nil, apierrors.NewConflict(podResource, uid, fmt.Errorf("%w; try again", err))
	case errors.Is(err, store.ErrNotFound):
		return nil, apierrors.NewNotFound(podResource, uid)
	case err != nil:
		return nil, err
	}
	a.log.WithFields(logrus.Fields{"pod": e.Key().String(), "uid": uid}).Info("ending a bootstrap pod")
	return e, nil
}

// forget removes the record of a pod that the server had and has no more.
func (a *API) forget(ctx context.Context, e *store.Entry) (*store.Entry, error) {
	uid := string(e.ServerUID)
	pod, err := a.Lookup(ctx, e.Key())
	switch {
	case apierrors.IsNotFound(err), err == nil && !e.Is(pod):
		if err := a.Store.Remove(e.Pod.UID); err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		return e, nil
	case err != nil:
		return nil, apierrors.NewConflict(podResource, uid,
			fmt.Errorf("the pod belongs to the API server, which cannot be asked now: %w", err))
	}
	return nil, apierrors.NewConflict(podResource, uid, fmt.Errorf(
		"the pod belongs to the API server by now; use: a4s kubectl delete pod --namespace %s %s",
		e.Pod.Namespace, e.Pod.Name))
}
