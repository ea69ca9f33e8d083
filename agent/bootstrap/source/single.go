package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/a4s-io/a4s/agent/bootstrap/store"
)

// single answers what the kubelet reads and writes of one pod that no server
// has. It returns nothing for a request that is not its business.
func (s *Source) single(r *http.Request, e *store.Entry, sub string) (*http.Response, error) {
	switch {
	case r.Method == http.MethodGet && sub == "":
		return answer(r, http.StatusOK, asOfServer(e.Pod, offlineVersion))
	case r.Method == http.MethodPatch && sub == "status":
		return s.patchStatus(r, e)
	case r.Method == http.MethodDelete && sub == "":
		return s.finish(r, e)
	}
	return nil, nil
}

// runtimeClass answers, while there is no server, for a runtime class that the
// checkpoint has: pods that run by it could not be listed without.
func (s *Source) runtimeClass(r *http.Request) (*http.Response, error) {
	name, ok := strings.CutPrefix(r.URL.Path, classesPath+"/")
	if !ok || r.Method != http.MethodGet || s.isOnline() {
		return nil, nil
	}
	s.mu.Lock()
	class := s.resources[classesPath].items[types.NamespacedName{Name: name}]
	s.mu.Unlock()
	if class == nil {
		return nil, nil
	}
	return answer(r, http.StatusOK, class)
}

// patchStatus takes over what the kubelet says of a pod.
func (s *Source) patchStatus(r *http.Request, e *store.Entry) (*http.Response, error) {
	patch, err := readBody(r)
	if err != nil {
		return nil, err
	}
	var target struct {
		Metadata struct {
			UID types.UID `json:"uid"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(patch, &target); err != nil {
		return refuse(r, http.StatusBadRequest, metav1.StatusReasonBadRequest, "the patch is no JSON: "+err.Error())
	}
	if uid := target.Metadata.UID; uid != "" && uid != e.Pod.UID {
		return refuse(r, http.StatusConflict, metav1.StatusReasonConflict, fmt.Sprintf("the pod has the UID %s", e.Pod.UID))
	}
	before, err := json.Marshal(e.Pod)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Pod{})
	if err != nil {
		return refuse(r, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	var pod corev1.Pod
	if err := json.Unmarshal(after, &pod); err != nil {
		return refuse(r, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	changed, err := s.Store.SetStatus(e.Pod.UID, &pod.Status)
	switch {
	case errors.Is(err, store.ErrPersisted), errors.Is(err, store.ErrNotFound):
		return refuse(r, http.StatusConflict, metav1.StatusReasonConflict, "the pod is another one's business by now; try again")
	case err != nil:
		return refuse(r, http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error())
	}
	return answer(r, http.StatusOK, asOfServer(changed.Pod, offlineVersion))
}

// finish removes a pod whose containers the kubelet has ended, as it was asked.
func (s *Source) finish(r *http.Request, e *store.Entry) (*http.Response, error) {
	if e.Pod.DeletionTimestamp == nil {
		return refuse(r, http.StatusConflict, metav1.StatusReasonConflict, "nobody asked for the end of this pod")
	}
	if err := s.Store.Remove(e.Pod.UID); err != nil && !errors.Is(err, store.ErrNotFound) {
		return refuse(r, http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error())
	}
	s.Log.WithFields(logrus.Fields{"pod": e.Key().String(), "uid": string(e.Pod.UID)}).Info("the bootstrap pod has ended")
	return answer(r, http.StatusOK, asOfServer(e.Pod, offlineVersion))
}

func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	data, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		return nil, err
	}
	return data, nil
}
