package crd

import (
	"maps"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/a4s-io/a4s/internal/space"
)

// nativeForm is a CRD with native names. It shares all but the metadata with the
// composite one.
func nativeForm(
	composite *apiextensionsv1.CustomResourceDefinition,
) (tenant string, native *apiextensionsv1.CustomResourceDefinition) {
	out := *composite
	tenant, out.Name = space.SplitClusterName(composite.Name)
	if _, stamped := out.Labels[space.Label]; stamped {
		out.Labels = maps.Clone(out.Labels)
		delete(out.Labels, space.Label)
	}
	if c := out.Spec.Conversion; c != nil && c.Webhook != nil && c.Webhook.ClientConfig != nil &&
		c.Webhook.ClientConfig.Service != nil {
		out.Spec.Conversion = c.DeepCopy()
		service := out.Spec.Conversion.Webhook.ClientConfig.Service
		_, service.Namespace = space.SplitNamespace(service.Namespace)
	}
	return tenant, &out
}
