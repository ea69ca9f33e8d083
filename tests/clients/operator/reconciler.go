package main

import (
	"context"
	"fmt"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// widget is one of either version.
type widget interface {
	client.Object
	Wanted() (pods int32, colour string)
	Observe(ready int32, release string)
}

// reconciler keeps a ConfigMap and a Deployment for each widget.
type reconciler struct {
	client.Client
	new            func() widget
	release, image string
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	w := r.new()
	if err := r.Get(ctx, req.NamespacedName, w); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if w.GetDeletionTimestamp() != nil {
		return ctrl.Result{}, nil // the garbage collector does the rest
	}
	pods, colour := w.Wanted()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, cm, func() error {
		cm.Data = map[string]string{"colour": colour, "release": r.release}
		return controllerutil.SetControllerReference(w, cm, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, fmt.Errorf("writing the ConfigMap: %w", err)
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, d, func() error {
		r.deploy(d, pods)
		return controllerutil.SetControllerReference(w, d, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, fmt.Errorf("writing the Deployment: %w", err)
	}
	before := w.DeepCopyObject()
	w.Observe(d.Status.ReadyReplicas, r.release)
	if reflect.DeepEqual(before, w) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.Status().Update(ctx, w)
}

// deploy fills in what this operator decides; the rest is left to the defaults
// that the server has set.
func (r *reconciler) deploy(d *appsv1.Deployment, pods int32) {
	labels := map[string]string{"widget": d.Name}
	grace := int64(1)
	d.Spec.Replicas = &pods
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
	if len(d.Spec.Template.Spec.Containers) == 0 {
		d.Spec.Template.Spec.Containers = make([]corev1.Container, 1)
	}
	c := &d.Spec.Template.Spec.Containers[0]
	c.Name, c.Image, c.Args, c.ImagePullPolicy = "widget", r.image, []string{"serve"}, corev1.PullNever
	c.EnvFrom = []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: d.Name}}},
	}
}
