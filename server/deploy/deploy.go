package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"text/template"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/a4s-io/a4s/internal/component"
)

// FieldManager owns the fields that manifests set.
const FieldManager = "a4s"

// retryEvery is the pause after a failed round.
const retryEvery = 2 * time.Second

// Values are the template fields of a manifest.
type Values struct {
	// ClusterDNS is the service address of the cluster DNS.
	ClusterDNS string
}

// Options configures the deployer.
type Options struct {
	Config *rest.Config
	FS     fs.FS
	Values Values
	Log    *logrus.Entry
}

// New returns a component that applies every manifest until all of them are
// applied, is ready then, and has nothing left to do.
func New(o Options) component.Component {
	return component.Component{Name: "manifests", Run: func(ctx context.Context, ready func()) error {
		objects, err := Render(o.FS, o.Values)
		if err != nil {
			return err
		}
		for {
			if err = apply(ctx, o.Config, objects); err == nil {
				break
			}
			if ctx.Err() != nil {
				return nil
			}
			o.Log.WithError(err).Debug("manifests are not applied yet")
			select {
			case <-time.After(retryEvery):
			case <-ctx.Done():
				return nil
			}
		}
		ready()
		<-ctx.Done()
		return nil
	}}
}

// Render returns the objects of all YAML files in name order.
func Render(files fs.FS, v Values) ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing the manifests: %w", err)
	}
	var out []*unstructured.Unstructured
	for _, name := range names {
		objects, err := renderFile(files, name, v)
		if err != nil {
			return nil, fmt.Errorf("manifest %s: %w", name, err)
		}
		out = append(out, objects...)
	}
	return out, nil
}

func renderFile(files fs.FS, name string, v Values) ([]*unstructured.Unstructured, error) {
	t, err := template.New(path.Base(name)).Option("missingkey=error").ParseFS(files, name)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := t.Execute(&text, v); err != nil {
		return nil, err
	}
	dec := yaml.NewYAMLOrJSONDecoder(&text, 4096)
	var out []*unstructured.Unstructured
	for {
		u := &unstructured.Unstructured{}
		switch err := dec.Decode(u); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, err
		}
		if len(u.Object) > 0 {
			out = append(out, u)
		}
	}
}

func apply(ctx context.Context, config *rest.Config, objects []*unstructured.Unstructured) error {
	dc, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("making a discovery client: %w", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(dc))
	var errs []error
	for _, u := range objects {
		if err := applyOne(ctx, client, mapper, u); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err))
		}
	}
	return errors.Join(errs...)
}

func applyOne(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, u *unstructured.Unstructured) error {
	gvk := u.GroupVersionKind()
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return err
	}
	var target dynamic.ResourceInterface = client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		target = client.Resource(mapping.Resource).Namespace(u.GetNamespace())
	}
	_, err = target.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
	return err
}
