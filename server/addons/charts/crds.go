package charts

import (
	"bytes"
	"context"
	_ "embed" // the CRDs
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/a4s-io/a4s/server/addons/charts/reconcile"
)

//go:embed crds.yaml
var manifests []byte

// crdResource are CRDs.
func crdResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
}

// crds are those of both kinds.
func crds() (list []*unstructured.Unstructured, err error) {
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096); ; {
		crd := &unstructured.Unstructured{}
		if err := d.Decode(crd); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, fmt.Errorf("parsing the CRDs: %w", err)
		}
		list = append(list, crd)
	}
}

// define applies the CRDs, and waits until the API serves HelmCharts.
func (c *controller) define(ctx context.Context) error {
	list, err := crds()
	if err != nil {
		return err
	}
	for _, crd := range list {
		if !c.until(ctx, "applying the CRD "+crd.GetName(), func() error {
			_, err := c.Objects.Resource(crdResource()).Apply(ctx, crd.GetName(), crd,
				metav1.ApplyOptions{FieldManager: Name, Force: true})
			return err
		}) {
			return nil
		}
	}
	// Only this kind: what is not asked for, the API server keeps nothing for.
	c.until(ctx, "waiting for HelmCharts", func() error {
		_, err := c.Meta.Resource(reconcile.Charts()).List(ctx, metav1.ListOptions{Limit: 1})
		return err
	})
	return nil
}

// until tries until it succeeds; false says that the context ended before.
func (c *controller) until(ctx context.Context, what string, try func() error) bool {
	said := false
	return wait.PollUntilContextCancel(ctx, time.Second, true, func(context.Context) (bool, error) {
		err := try()
		// A CRD takes a moment to be served.
		if err != nil && !said && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			c.Log.WithError(err).Warn(what + " failed; this is tried again")
			said = true
		}
		return err == nil, nil
	}) == nil
}
