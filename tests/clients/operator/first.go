package main

import (
	"context"
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/a4s-io/a4s/tests/clients/operator/api/v1alpha1"
)

// releaseLabel is set by the mutating webhook.
const releaseLabel = "example.com/release"

func firstRelease(mgr ctrl.Manager, image string) error {
	if err := ctrl.NewWebhookManagedBy(mgr, &v1alpha1.Widget{}).WithDefaulter(first{}).WithValidator(first{}).
		Complete(); err != nil {
		return err
	}
	return control(mgr, &reconciler{new: func() widget { return &v1alpha1.Widget{} }, release: "first", image: image})
}

// first is the webhooks of the first release, to which pink is no colour.
type first struct{}

// Default implements admission.Defaulter.
func (first) Default(_ context.Context, w *v1alpha1.Widget) error {
	label(w, "first")
	return nil
}

// ValidateCreate implements admission.Validator.
func (first) ValidateCreate(_ context.Context, w *v1alpha1.Widget) (admission.Warnings, error) {
	if w.Spec.Colour == "pink" {
		return nil, errors.New("the first release has no pink widgets")
	}
	return nil, nil
}

// ValidateUpdate implements admission.Validator.
func (v first) ValidateUpdate(ctx context.Context, _, w *v1alpha1.Widget) (admission.Warnings, error) {
	return v.ValidateCreate(ctx, w)
}

// ValidateDelete implements admission.Validator.
func (first) ValidateDelete(context.Context, *v1alpha1.Widget) (admission.Warnings, error) {
	return nil, nil
}

func label(w widget, release string) {
	labels := w.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[releaseLabel] = release
	w.SetLabels(labels)
}
