package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	helmv1 "github.com/k3s-io/helm-controller/pkg/apis/helm.cattle.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/problem"
)

const (
	// fieldManager is in whose name the claim of a HelmChart and its status are written.
	fieldManager = "helm-controller"
	// readyCondition is ours: k3s' says only that a job was made.
	readyCondition helmv1.HelmChartConditionType = "Ready"
	// maxMessage bounds what is said of an error. The API takes 1,024 bytes in an event.
	maxMessage = 1000
)

// condition is what a HelmChart is told of its release.
type condition struct {
	ready corev1.ConditionStatus
	// failed says that nothing more is tried.
	failed          bool
	reason, message string
}

// list are the conditions as k3s has them, and Ready. JobCreated is what scripts wait for that were written for k3s:
// it is true from the moment on when the chart is worked on.
func (s condition) list() []helmv1.HelmChartCondition {
	failed := helmv1.HelmChartCondition{Type: helmv1.HelmChartFailed, Status: corev1.ConditionFalse}
	if s.failed {
		failed.Status, failed.Reason, failed.Message = corev1.ConditionTrue, s.reason, s.message
	}
	return []helmv1.HelmChartCondition{
		{Type: helmv1.HelmChartJobCreated, Status: corev1.ConditionTrue, Reason: "NoJob",
			Message: "The server works on it itself; there is no job"},
		failed,
		{Type: readyCondition, Status: s.ready, Reason: s.reason, Message: s.message},
	}
}

// say writes the status of a HelmChart, if it is another one.
func (r *Reconciler) say(ctx context.Context, chart *helmv1.HelmChart, s condition) error {
	conditions := s.list()
	if slices.Equal(conditions, chart.Status.Conditions) && chart.Status.JobName == "" {
		return nil
	}
	chart.Status = helmv1.HelmChartStatus{Conditions: conditions}
	if err := r.patch(ctx, chart, nil, "status"); err != nil {
		return fmt.Errorf("writing its status: %w", err)
	}
	return nil
}

// patch writes metadata of a HelmChart, or the status that it has here.
func (r *Reconciler) patch(ctx context.Context, chart *helmv1.HelmChart, metadata map[string]any,
	subresources ...string,
) error {
	body := map[string]any{"metadata": metadata}
	if len(subresources) > 0 {
		body = map[string]any{"metadata": map[string]any{"uid": chart.UID},
			"status": map[string]any{"jobName": nil, "conditions": chart.Status.Conditions}}
	}
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, err = r.Objects.Resource(Charts()).Namespace(chart.Namespace).Patch(ctx, chart.Name,
		types.MergePatchType, data, metav1.PatchOptions{FieldManager: fieldManager}, subresources...)
	return err
}

// Report says what has kept a HelmChart from being looked at, without reading it, and whether nothing more is tried.
func (r *Reconciler) Report(
	ctx context.Context, key types.NamespacedName, uid types.UID, why error, failed bool,
) error {
	chart := &helmv1.HelmChart{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: uid}}
	r.tell(chart, corev1.EventTypeWarning, "ChartFailed", "%v", why)
	return r.say(ctx, chart, condition{ready: corev1.ConditionFalse, failed: failed, reason: "ReleaseFailed",
		message: short(why.Error())})
}

// tell has an event written about a HelmChart.
func (r *Reconciler) tell(chart *helmv1.HelmChart, kind, reason, format string, args ...any) {
	r.Events.Event(reference(chart), kind, reason, short(fmt.Sprintf(format, args...)))
}

// reference is what an event is about.
func reference(chart *helmv1.HelmChart) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: Charts().GroupVersion().String(), Kind: "HelmChart",
		Namespace: chart.Namespace, Name: chart.Name, UID: chart.UID, ResourceVersion: chart.ResourceVersion}
}

// short is a message that is not longer than it may be.
func short(message string) string {
	return problem.Short(message, maxMessage)
}
