package serving

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clientset "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/server/controlplane/interning"
)

// pooled is a client for the controller of names. That keeps the answers to its writes, up
// to a hundred definitions for each tenant, and until others push them out: with the pool
// their schemas are those that the caches have.
type pooled struct {
	clientset.CustomResourceDefinitionsGetter
	pool *interning.Pool
}

// CustomResourceDefinitions implements clientset.CustomResourceDefinitionsGetter.
func (p *pooled) CustomResourceDefinitions() clientset.CustomResourceDefinitionInterface {
	return &pooledDefinitions{p.CustomResourceDefinitionsGetter.CustomResourceDefinitions(), p.pool}
}

type pooledDefinitions struct {
	clientset.CustomResourceDefinitionInterface
	pool *interning.Pool
}

// UpdateStatus implements clientset.CustomResourceDefinitionInterface.
func (p *pooledDefinitions) UpdateStatus(
	ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, o metav1.UpdateOptions,
) (*apiextensionsv1.CustomResourceDefinition, error) {
	updated, err := p.CustomResourceDefinitionInterface.UpdateStatus(ctx, crd, o)
	if err == nil {
		p.pool.Object(updated)
	}
	return updated, err
}
