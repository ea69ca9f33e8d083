package charts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	helmv1 "github.com/k3s-io/helm-controller/pkg/apis/helm.cattle.io/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/a4s-io/a4s/server/addons/charts/release"
)

const (
	// managedByAnnotation says which controller works on a HelmChart. k3s' has the same name as this one, so that
	// the HelmCharts of a cluster that came from k3s go on.
	managedByAnnotation = "helmcharts.cattle.io/managed-by"
	managedBy           = "helm-controller"
	unmanagedAnnotation = "helmcharts.helm.cattle.io/unmanaged"
	// finalizer is that of k3s, for the same reason.
	finalizer = "wrangler.cattle.io/on-helm-chart-remove"
)

var (
	// errNamespace is a namespace that is not of the system space.
	errNamespace = errors.New("not a namespace of the system space")
	// errNoName is what cannot be the name of a namespace.
	errNoName = errors.New("not the name of a namespace")
	// errUnknownVersion is a version of Helm that the server does not have.
	errUnknownVersion = errors.New("not a version that is there")
)

// sync brings a release to what its HelmChart says. With true or an error it is called again, later.
func (c *controller) sync(ctx context.Context, key types.NamespacedName) (again bool, err error) {
	got, err := c.objects.Resource(chartResource()).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		// Without an event of its end, nobody would look at it again.
		return c.watches.hasChart(key), c.watches.secrets(key, nil)
	} else if err != nil {
		return false, fmt.Errorf("reading it: %w", err)
	}
	if c.watches.behind(got) {
		// Not as after a failure: it has not been tried.
		c.log.Debugf("HelmChart %s was read as it was before its last change: it is read again", key)
		c.queue.AddAfter(key, time.Second)
		return false, nil
	}
	chart := &helmv1.HelmChart{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(got.Object, chart); err != nil {
		return false, fmt.Errorf("reading it: %w", err)
	}
	if _, ok := chart.Annotations[unmanagedAnnotation]; ok && chart.Annotations[managedByAnnotation] == managedBy {
		return false, errors.Join(c.letGo(ctx, chart), c.watches.secrets(key, nil))
	}
	if chart.DeletionTimestamp != nil && ours(chart) {
		return c.remove(ctx, key, chart)
	}
	if !managed(chart) {
		return false, c.watches.secrets(key, nil)
	}
	if err := invalid(chart); err != nil {
		// Before the claim: there can be no release that would have to be uninstalled.
		c.events.Event(reference(chart), corev1.EventTypeWarning, "ChartFailed", short(err.Error()))
		return false, c.say(ctx, chart, condition{ready: corev1.ConditionFalse, failed: true, reason: "Invalid",
			message: short(err.Error())})
	}
	if err := c.claim(ctx, chart); err != nil {
		return false, err
	}
	step, err := c.deploy(ctx, chart)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err == nil && step == release.GiveUp:
		return false, c.leave(ctx, chart)
	case err == nil:
		return false, c.say(ctx, chart, condition{ready: corev1.ConditionTrue, reason: "Deployed",
			message: "The release is deployed"})
	}
	last := c.queue.NumRequeues(key) >= retriesOf(chart)
	said := c.say(ctx, chart, condition{ready: corev1.ConditionFalse, failed: last || step == release.GiveUp,
		reason: "ReleaseFailed", message: short(err.Error())})
	c.events.Event(reference(chart), corev1.EventTypeWarning, "ChartFailed", short(err.Error()))
	c.log.WithError(err).Warnf("HelmChart %s", key)
	return !last && step != release.GiveUp, said
}

// leave says why nothing more is done about a release.
func (c *controller) leave(ctx context.Context, chart *helmv1.HelmChart) error {
	client, err := c.release(ctx, chart)
	if err != nil {
		return err
	}
	failure, err := client.Failure()
	if err != nil {
		return err
	}
	return c.say(ctx, chart, condition{ready: corev1.ConditionFalse, failed: true, reason: "ReleaseFailed",
		message: short("spec.failurePolicy leaves the release as it is, to be rolled back or uninstalled with helm: " +
			failure)})
}

// managed reports whether this controller works on a HelmChart.
func managed(chart *helmv1.HelmChart) bool {
	return ours(chart) && (chart.Spec.Chart != "" || chart.Spec.ChartContent != "")
}

// ours reports whether a HelmChart is left to this controller.
func ours(chart *helmv1.HelmChart) bool {
	if _, ok := chart.Annotations[unmanagedAnnotation]; ok {
		return false
	}
	by, claimed := chart.Annotations[managedByAnnotation]
	return !claimed || by == managedBy
}

// invalid says why a HelmChart can have no release.
func invalid(chart *helmv1.HelmChart) error {
	if v := chart.Spec.HelmVersion; v != "" && v != "v3" {
		return fmt.Errorf("spec.helmVersion: %w: %q; want v3, or nothing", errUnknownVersion, v)
	}
	return unreleasable(chart)
}

// unreleasable says why no release can ever have been where a HelmChart says.
func unreleasable(chart *helmv1.HelmChart) error {
	if err := release.CheckName(chart.Name); err != nil {
		return fmt.Errorf("metadata.name: %w", err)
	}
	namespace := namespaceOf(chart)
	if strings.Contains(namespace, ".") {
		return fmt.Errorf("spec.targetNamespace: %w: %q", errNamespace, namespace)
	}
	if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
		return fmt.Errorf("spec.targetNamespace: %w: %q: %s", errNoName, namespace, strings.Join(wrong, "; "))
	}
	return nil
}

// claim says that this controller works on the HelmChart, and has it stay until its release is uninstalled.
func (c *controller) claim(ctx context.Context, chart *helmv1.HelmChart) error {
	if chart.Annotations[managedByAnnotation] == managedBy && slices.Contains(chart.Finalizers, finalizer) {
		return nil
	}
	finalizers := slices.Clone(chart.Finalizers)
	if !slices.Contains(finalizers, finalizer) {
		finalizers = append(finalizers, finalizer)
	}
	if err := c.patch(ctx, chart, map[string]any{"resourceVersion": chart.ResourceVersion,
		"finalizers": finalizers, "annotations": map[string]string{managedByAnnotation: managedBy}}); err != nil {
		return fmt.Errorf("putting the finalizer on it: %w", err)
	}
	return nil
}

// deploy makes the release what the HelmChart says. With an error, step is GiveUp if there is nothing to try again.
func (c *controller) deploy(ctx context.Context, chart *helmv1.HelmChart) (step release.Step, err error) {
	w, err := c.wanted(ctx, chart)
	if err != nil {
		return release.Nothing, err
	}
	last, err := c.latest(ctx, chart)
	if err != nil {
		return release.Nothing, err
	}
	step = release.Next(last, w.hash, w.policy)
	if step == release.Nothing || step == release.GiveUp {
		return step, nil
	}
	if err := c.perform(ctx, chart, w, step, last); err != nil {
		// Helm has written by now what it has not done.
		if last, latestErr := c.latest(ctx, chart); latestErr == nil {
			if next := release.Next(last, w.hash, w.policy); next == release.GiveUp {
				return next, err
			}
		}
		return step, err
	}
	return step, nil
}

// perform does a step.
func (c *controller) perform(ctx context.Context, chart *helmv1.HelmChart, w *wanted, step release.Step,
	last release.Revision,
) error {
	// While something is tried again, the reason is said for as long as the download takes.
	if c.queue.NumRequeues(keyOf(chart)) == 0 {
		if err := c.progress(ctx, chart); err != nil {
			return err
		}
	}
	values, err := release.Values(w.documents, chart.Spec.Set)
	if err != nil {
		return err
	}
	// First, so that nothing is uninstalled of what cannot be installed again.
	data, err := c.archives.Get(ctx, w.source)
	if err != nil {
		return err
	}
	if err := c.progress(ctx, chart); err != nil {
		return err
	}
	client, err := c.release(ctx, chart)
	if err != nil {
		return err
	}
	switch step {
	case release.Resume:
		c.events.Eventf(reference(chart), corev1.EventTypeWarning, "ChartInterrupted",
			"Revision %d of the release was interrupted (%s); it is made again", last.Number, last.Status)
		if err := client.Interrupted(); err != nil {
			return err
		}
	case release.Reinstall:
		c.events.Eventf(reference(chart), corev1.EventTypeNormal, "UninstallChart",
			"Uninstalling revision %d of the release (%s), to install it again", last.Number, last.Status)
		left, err := client.Uninstall(ctx)
		if err != nil {
			return fmt.Errorf("uninstalling the release: %w", err)
		}
		if left != "" {
			c.events.Event(reference(chart), corev1.EventTypeNormal, "UninstallChart", uninstalled(left))
		}
		if client, err = c.release(ctx, chart); err != nil {
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
	c.events.Eventf(reference(chart), corev1.EventTypeNormal, "ApplyChart", "Applied %s in namespace %s", w.source,
		namespaceOf(chart))
	c.log.Infof("Applied HelmChart %s/%s: %s", chart.Namespace, chart.Name, w.source)
	return nil
}

// progress says that the release is not yet what the HelmChart says.
func (c *controller) progress(ctx context.Context, chart *helmv1.HelmChart) error {
	return c.say(ctx, chart, condition{ready: corev1.ConditionFalse, reason: "Progressing",
		message: "The release is being deployed"})
}

// remove uninstalls the release of a HelmChart that is being deleted, and lets it go.
func (c *controller) remove(ctx context.Context, key types.NamespacedName, chart *helmv1.HelmChart) (bool, error) {
	if !slices.Contains(chart.Finalizers, finalizer) {
		return false, nil
	}
	if unreleasable(chart) != nil {
		return false, errors.Join(c.letGo(ctx, chart), c.watches.secrets(key, nil))
	}
	last, err := c.latest(ctx, chart)
	if err != nil {
		return false, err
	}
	if last.Number > 0 {
		client, err := c.release(ctx, chart)
		if err != nil {
			return false, err
		}
		left, err := client.Uninstall(ctx)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if err != nil {
			message := short("uninstalling the release: " + err.Error())
			c.events.Event(reference(chart), corev1.EventTypeWarning, "ChartFailed", message)
			c.log.WithError(err).Warnf("Uninstalling HelmChart %s", key)
			return true, c.say(ctx, chart, condition{ready: corev1.ConditionFalse, reason: "UninstallFailed",
				message: message})
		}
		c.events.Event(reference(chart), corev1.EventTypeNormal, "RemoveChart", uninstalled(left))
		c.log.Infof("Uninstalled HelmChart %s", key)
	}
	return false, errors.Join(c.letGo(ctx, chart), c.watches.secrets(key, nil))
}

// uninstalled says that a release is, and what Helm has left.
func uninstalled(left string) string {
	if left == "" {
		return "Uninstalled the release"
	}
	return short("Uninstalled the release. " + left)
}

// letGo takes from a HelmChart what claim has put on it.
func (c *controller) letGo(ctx context.Context, chart *helmv1.HelmChart) error {
	finalizers := slices.DeleteFunc(slices.Clone(chart.Finalizers), func(f string) bool { return f == finalizer })
	err := c.patch(ctx, chart, map[string]any{"resourceVersion": chart.ResourceVersion, "uid": chart.UID,
		"finalizers": finalizers, "annotations": map[string]any{managedByAnnotation: nil}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("taking the finalizer from it: %w", err)
	}
	return nil
}

// release is a client for the release of a HelmChart.
func (c *controller) release(ctx context.Context, chart *helmv1.HelmChart) (*release.Client, error) {
	return release.New(ctx, release.Options{Config: c.config, Name: chart.Name, Namespace: namespaceOf(chart),
		Driver: chart.Spec.Driver, Timeout: timeoutOf(chart),
		Log: c.log.WithField("chart", chart.Namespace+"/"+chart.Name)})
}

// latest is the last revision of the release, by the labels that Helm gives it.
func (c *controller) latest(ctx context.Context, chart *helmv1.HelmChart) (release.Revision, error) {
	resource := "secrets"
	if chart.Spec.Driver == helmv1.HelmDriverConfigMap {
		resource = "configmaps"
	}
	list, err := c.meta.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).
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
