package main

import (
	"context"
	"errors"
	"strconv"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	v1 "github.com/a4s-io/a4s/tests/clients/operator/api/v1"
	"github.com/a4s-io/a4s/tests/clients/operator/api/v1alpha1"
)

// coatsAnnotation keeps what the first version of the API has no field for.
const coatsAnnotation = "example.com/coats"

func secondRelease(mgr ctrl.Manager, image string) error {
	converter := conversion.NewHubSpokeConverter(&v1.Widget{},
		conversion.NewSpokeConverter(&v1alpha1.Widget{}, down, up))
	if err := ctrl.NewWebhookManagedBy(mgr, &v1.Widget{}).WithDefaulter(second{}).WithValidator(second{}).
		WithConverter(converter).Complete(); err != nil {
		return err
	}
	return control(mgr, &reconciler{new: func() widget { return &v1.Widget{} }, release: "second", image: image})
}

func down(_ context.Context, from *v1.Widget, to *v1alpha1.Widget) error {
	from.ObjectMeta.DeepCopyInto(&to.ObjectMeta)
	to.Spec = v1alpha1.WidgetSpec{Size: from.Spec.Replicas, Colour: from.Spec.Paint.Colour}
	to.Status = v1alpha1.WidgetStatus(from.Status)
	if from.Spec.Paint.Coats != 0 {
		annotations := to.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[coatsAnnotation] = strconv.Itoa(int(from.Spec.Paint.Coats))
		to.SetAnnotations(annotations)
	}
	return nil
}

func up(_ context.Context, from *v1alpha1.Widget, to *v1.Widget) error {
	from.ObjectMeta.DeepCopyInto(&to.ObjectMeta)
	to.Spec = v1.WidgetSpec{Replicas: from.Spec.Size, Paint: v1.Paint{Colour: from.Spec.Colour}}
	to.Status = v1.WidgetStatus(from.Status)
	if coats, ok := from.Annotations[coatsAnnotation]; ok {
		n, err := strconv.ParseInt(coats, 10, 32)
		if err != nil {
			return err
		}
		to.Spec.Paint.Coats = int32(n)
		delete(to.Annotations, coatsAnnotation)
	}
	return nil
}

// second is the webhooks of the second release, to which brown is no colour,
// and which paints twice.
type second struct{}

// Default implements admission.Defaulter.
func (second) Default(_ context.Context, w *v1.Widget) error {
	label(w, "second")
	if w.Spec.Paint.Coats == 0 {
		w.Spec.Paint.Coats = 2
	}
	return nil
}

// ValidateCreate implements admission.Validator.
func (second) ValidateCreate(_ context.Context, w *v1.Widget) (admission.Warnings, error) {
	if w.Spec.Paint.Colour == "brown" {
		return nil, errors.New("the second release has no brown widgets")
	}
	return nil, nil
}

// ValidateUpdate implements admission.Validator.
func (v second) ValidateUpdate(ctx context.Context, before, w *v1.Widget) (admission.Warnings, error) {
	if before.Spec.Paint.Colour != w.Spec.Paint.Colour {
		return nil, errors.New("the second release does not paint over")
	}
	return v.ValidateCreate(ctx, w)
}

// ValidateDelete implements admission.Validator.
func (second) ValidateDelete(context.Context, *v1.Widget) (admission.Warnings, error) {
	return nil, nil
}
