package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	helmv1 "github.com/k3s-io/helm-controller/pkg/apis/helm.cattle.io/v1"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/server/addons/charts/archive"
	"github.com/a4s-io/a4s/server/addons/charts/release"
)

// Next says when a HelmChart is to be looked at again.
type Next int

const (
	// Done is when something changes.
	Done Next = iota
	// Again is later, as after a failure.
	Again
	// Soon is in a moment, as nothing was tried.
	Soon
	// Later is in a while: nothing tells when there is something to do.
	Later
)

func againIf(again bool) Next {
	if again {
		return Again
	}
	return Done
}

// Watches know what the API has told of HelmCharts, and are told what else is to be watched for them.
type Watches interface {
	// HasChart reports whether a HelmChart is there, as far as is known.
	HasChart(types.NamespacedName) bool
	// Behind reports whether a HelmChart that was read is older than what is known of it.
	Behind(read metav1.Object) bool
	// Configs has HelmChartConfigs watched. What is read after it returns is watched.
	Configs() error
	// Secrets has those watched that a HelmChart has values in, and no longer those that it had.
	Secrets(chart types.NamespacedName, names map[string]bool) error
}

// Told is what a watch has told of a HelmChart, nothing if UID is "".
type Told struct {
	UID        types.UID
	Generation int64
	// Ends says that it is being deleted, and Others that another controller has it.
	Ends, Others bool
}

// NewerThan reports whether a HelmChart that was read is as it was before that.
func (t Told) NewerThan(read metav1.Object) bool {
	return t.UID == read.GetUID() && (t.Generation > read.GetGeneration() ||
		t.Ends && read.GetDeletionTimestamp() == nil)
}

// Events are told what was done about an object.
type Events interface {
	Event(about runtime.Object, kind, reason, message string)
}

// Reconciler does what HelmCharts of one space say.
type Reconciler struct {
	// Space is the tenant, or the system.
	Space string
	// Objects, Core and Meta reach the space for HelmCharts, what they refer to, and the labels of releases.
	Objects dynamic.Interface
	Core    kubernetes.Interface
	Meta    metadata.Interface
	// Rights reaches the space with the rights that charts have.
	Rights   *rest.Config
	Archives *archive.Getter
	Watches  Watches
	Events   Events
	// Tries is how often a HelmChart has failed, one time after the other.
	Tries func(types.NamespacedName) int
	Log   *logrus.Entry
}

// Reach has what is read and written for HelmCharts go to the space that config reaches, by a client of its own.
func (r *Reconciler) Reach(config *rest.Config, client *http.Client) (err error) {
	if r.Objects, err = dynamic.NewForConfigAndClient(config, client); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if r.Core, err = kubernetes.NewForConfigAndClient(config, client); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if r.Meta, err = metadata.NewForConfigAndClient(config, client); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return nil
}

// Reconcile brings a release to what its HelmChart says. After an error it is called again, as after Again.
func (r *Reconciler) Reconcile(ctx context.Context, key types.NamespacedName) (Next, error) {
	got, err := r.Objects.Resource(Charts()).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		// Without an event of its end, nobody would look at it again.
		return againIf(r.Watches.HasChart(key)), r.Watches.Secrets(key, nil)
	} else if err != nil {
		return Done, fmt.Errorf("reading it: %w", err)
	}
	if r.Watches.Behind(got) {
		// Not as after a failure: it has not been tried.
		r.Log.Debugf("HelmChart %s was read as it was before its last change: it is read again", key)
		return Soon, nil
	}
	chart := &helmv1.HelmChart{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(got.Object, chart); err != nil {
		return Done, fmt.Errorf("reading it: %w", err)
	}
	if _, ok := chart.Annotations[UnmanagedAnnotation]; ok && chart.Annotations[ManagedByAnnotation] == ManagedBy {
		return Done, errors.Join(r.letGo(ctx, chart), r.Watches.Secrets(key, nil))
	}
	if chart.DeletionTimestamp != nil && ours(chart) {
		again, err := r.remove(ctx, key, chart)
		return againIf(again), err
	}
	if !managed(chart) {
		return Done, r.Watches.Secrets(key, nil)
	}
	again, err := r.bring(ctx, key, chart)
	return againIf(again), err
}

// bring makes the release of a HelmChart what it says, and says how that went.
func (r *Reconciler) bring(ctx context.Context, key types.NamespacedName, chart *helmv1.HelmChart) (bool, error) {
	if err := r.invalid(chart); err != nil {
		// Before the claim: there can be no release that would have to be uninstalled.
		r.tell(chart, corev1.EventTypeWarning, "ChartFailed", "%v", err)
		return false, r.say(ctx, chart, condition{ready: corev1.ConditionFalse, failed: true, reason: "Invalid",
			message: short(err.Error())})
	}
	if err := r.claim(ctx, chart); err != nil {
		return false, err
	}
	step, err := r.deploy(ctx, chart)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err == nil && step == release.GiveUp:
		return false, r.leave(ctx, chart)
	case err == nil:
		return false, r.say(ctx, chart, condition{ready: corev1.ConditionTrue, reason: "Deployed",
			message: "The release is deployed"})
	}
	last := r.Tries(key) >= retriesOf(chart)
	said := r.say(ctx, chart, condition{ready: corev1.ConditionFalse, failed: last || step == release.GiveUp,
		reason: "ReleaseFailed", message: short(err.Error())})
	r.tell(chart, corev1.EventTypeWarning, "ChartFailed", "%v", err)
	r.Log.WithError(err).Warnf("HelmChart %s", key)
	return !last && step != release.GiveUp, said
}

// leave says why nothing more is done about a release.
func (r *Reconciler) leave(ctx context.Context, chart *helmv1.HelmChart) error {
	client, err := r.release(ctx, chart)
	if err != nil {
		return err
	}
	failure, err := client.Failure()
	if err != nil {
		return err
	}
	return r.say(ctx, chart, condition{ready: corev1.ConditionFalse, failed: true, reason: "ReleaseFailed",
		message: short("spec.failurePolicy leaves the release as it is, to be rolled back or uninstalled with helm: " +
			failure)})
}

// deploy makes the release what the HelmChart says. With an error, step is GiveUp if there is nothing to try again.
func (r *Reconciler) deploy(ctx context.Context, chart *helmv1.HelmChart) (step release.Step, err error) {
	w, err := r.wanted(ctx, chart)
	if err != nil {
		return release.Nothing, err
	}
	last, err := r.latest(ctx, chart)
	if err != nil {
		return release.Nothing, err
	}
	step = release.Next(last, w.hash, w.policy)
	if step == release.Nothing || step == release.GiveUp {
		return step, nil
	}
	if err := r.perform(ctx, chart, w, step, last); err != nil {
		// Helm has written by now what it has not done.
		if last, latestErr := r.latest(ctx, chart); latestErr == nil {
			if next := release.Next(last, w.hash, w.policy); next == release.GiveUp {
				return next, err
			}
		}
		return step, err
	}
	return step, nil
}

// perform does a step.
func (r *Reconciler) perform(ctx context.Context, chart *helmv1.HelmChart, w *wanted, step release.Step,
	last release.Revision,
) error {
	// While something is tried again, the reason is said for as long as the download takes.
	if r.Tries(keyOf(chart)) == 0 {
		if err := r.progress(ctx, chart); err != nil {
			return err
		}
	}
	values, err := release.Values(w.documents, chart.Spec.Set)
	if err != nil {
		return err
	}
	// First, so that nothing is uninstalled of what cannot be installed again.
	data, err := r.Archives.Get(ctx, w.source)
	if err != nil {
		return err
	}
	if err := r.progress(ctx, chart); err != nil {
		return err
	}
	client, err := r.release(ctx, chart)
	if err != nil {
		return err
	}
	switch step {
	case release.Resume:
		r.tell(chart, corev1.EventTypeWarning, "ChartInterrupted",
			"Revision %d of the release was interrupted (%s); it is made again", last.Number, last.Status)
		if err := client.Interrupted(); err != nil {
			return err
		}
	case release.Reinstall:
		r.tell(chart, corev1.EventTypeNormal, "UninstallChart",
			"Uninstalling revision %d of the release (%s), to install it again", last.Number, last.Status)
		left, err := client.Uninstall(ctx)
		if err != nil {
			return fmt.Errorf("uninstalling the release: %w", err)
		}
		if left != "" {
			r.tell(chart, corev1.EventTypeNormal, "UninstallChart", "%s", uninstalled(left))
		}
		if client, err = r.release(ctx, chart); err != nil {
			return err
		}
	}
	if err := client.Apply(ctx, release.Request{
		Archive: data, Values: values, Hash: w.hash,
		CreateNamespace: chart.Spec.CreateNamespace, TakeOwnership: chart.Spec.TakeOwnership,
		ServerSide: w.serverSide, ForceConflicts: w.forceConflicts,
	}); err != nil {
		return err
	}
	r.tell(chart, corev1.EventTypeNormal, "ApplyChart", "Applied %s in namespace %s", w.source,
		namespaceOf(chart))
	r.Log.Infof("Applied HelmChart %s/%s: %s", chart.Namespace, chart.Name, w.source)
	return nil
}

// progress says that the release is not yet what the HelmChart says.
func (r *Reconciler) progress(ctx context.Context, chart *helmv1.HelmChart) error {
	return r.say(ctx, chart, condition{ready: corev1.ConditionFalse, reason: "Progressing",
		message: "The release is being deployed"})
}

// remove uninstalls the release of a HelmChart that is being deleted, and lets it go.
func (r *Reconciler) remove(ctx context.Context, key types.NamespacedName, chart *helmv1.HelmChart) (bool, error) {
	if !slices.Contains(chart.Finalizers, Finalizer) {
		return false, nil
	}
	if r.unreleasable(chart) != nil {
		return false, errors.Join(r.letGo(ctx, chart), r.Watches.Secrets(key, nil))
	}
	last, err := r.latest(ctx, chart)
	if err != nil {
		return false, err
	}
	if last.Number > 0 {
		client, err := r.release(ctx, chart)
		if err != nil {
			return false, err
		}
		left, err := client.Uninstall(ctx)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if err != nil {
			message := short("uninstalling the release: " + err.Error())
			r.tell(chart, corev1.EventTypeWarning, "ChartFailed", "%s", message)
			r.Log.WithError(err).Warnf("Uninstalling HelmChart %s", key)
			return true, r.say(ctx, chart, condition{ready: corev1.ConditionFalse, reason: "UninstallFailed",
				message: message})
		}
		r.tell(chart, corev1.EventTypeNormal, "RemoveChart", "%s", uninstalled(left))
		r.Log.Infof("Uninstalled HelmChart %s", key)
	}
	return false, errors.Join(r.letGo(ctx, chart), r.Watches.Secrets(key, nil))
}

// uninstalled says that a release is, and what Helm has left.
func uninstalled(left string) string {
	if left == "" {
		return "Uninstalled the release"
	}
	return short("Uninstalled the release. " + left)
}

// release is a client for the release of a HelmChart.
func (r *Reconciler) release(ctx context.Context, chart *helmv1.HelmChart) (*release.Client, error) {
	return release.New(ctx, release.Options{Config: r.Rights, Name: chart.Name, Namespace: namespaceOf(chart),
		Driver: chart.Spec.Driver, Timeout: timeoutOf(chart),
		Log: r.Log.WithField("chart", chart.Namespace+"/"+chart.Name)})
}

// latest is the last revision of the release, by the labels that Helm gives it.
func (r *Reconciler) latest(ctx context.Context, chart *helmv1.HelmChart) (release.Revision, error) {
	resource := "secrets"
	if chart.Spec.Driver == helmv1.HelmDriverConfigMap {
		resource = "configmaps"
	}
	list, err := r.Meta.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).
		Namespace(namespaceOf(chart)).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + chart.Name})
	if err != nil {
		return release.Revision{}, fmt.Errorf("looking for the release: %w", err)
	}
	var labels []map[string]string
	for _, item := range list.Items {
		labels = append(labels, item.Labels)
	}
	return release.Latest(labels), nil
}
