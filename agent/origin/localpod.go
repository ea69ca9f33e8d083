package origin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/a4s-io/a4s/agent/bootstrap/store"
	"github.com/a4s-io/a4s/agent/origin/codec"
)

// answer is the answer to reads and writes of one pod that no server has, nil for
// other requests.
func (p *localPods) answer(r *Request) (*answer, error) {
	e, ok := p.store.ByKey(types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
	if !ok || e.State != store.Local {
		return nil, nil
	}
	switch {
	case r.Verb == VerbGet && r.Subresource == "":
		return found(asOfServer(e.Pod, offlineVersion)), nil
	case r.Verb == VerbPatch && r.Subresource == "status":
		return p.patchStatus(r, e)
	case r.Verb == VerbDelete && r.Subresource == "":
		return p.finish(e)
	}
	return nil, nil
}

// patchStatus takes over the status that the kubelet reports of a pod.
func (p *localPods) patchStatus(r *Request, e *store.Entry) (*answer, error) {
	patch, err := codec.ReadAll(r.HTTP.Body)
	if err != nil {
		return nil, err
	}
	var target struct {
		Metadata struct {
			UID types.UID `json:"uid"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(patch, &target); err != nil {
		return refusal(http.StatusBadRequest, metav1.StatusReasonBadRequest, "the patch is no JSON: "+err.Error()), nil
	}
	if uid := target.Metadata.UID; uid != "" && uid != e.Pod.UID {
		return refusal(http.StatusConflict, metav1.StatusReasonConflict,
			fmt.Sprintf("the pod has the UID %s", e.Pod.UID)), nil
	}
	before, err := json.Marshal(e.Pod)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Pod{})
	if err != nil {
		return refusal(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error()), nil
	}
	var pod corev1.Pod
	if err := json.Unmarshal(after, &pod); err != nil {
		return refusal(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error()), nil
	}
	changed, err := p.store.SetStatus(e.Pod.UID, &pod.Status)
	switch {
	case errors.Is(err, store.ErrPersisted), errors.Is(err, store.ErrNotFound):
		return refusal(http.StatusConflict, metav1.StatusReasonConflict,
			"the API server has the pod by now; try again"), nil
	case err != nil:
		return refusal(http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error()), nil
	}
	return found(asOfServer(changed.Pod, offlineVersion)), nil
}

// finish removes a pod whose containers the kubelet has ended, as it was asked.
func (p *localPods) finish(e *store.Entry) (*answer, error) {
	if e.Pod.DeletionTimestamp == nil {
		return refusal(http.StatusConflict, metav1.StatusReasonConflict, "nobody asked for the end of this pod"), nil
	}
	if err := p.store.Remove(e.Pod.UID); err != nil && !errors.Is(err, store.ErrNotFound) {
		return refusal(http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error()), nil
	}
	p.log.WithFields(logrus.Fields{"pod": e.Key().String(), "uid": string(e.Pod.UID)}).
		Info("the bootstrap pod has ended")
	return found(asOfServer(e.Pod, offlineVersion)), nil
}
