package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	helmv1 "github.com/k3s-io/helm-controller/pkg/apis/helm.cattle.io/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/server/addons/charts/archive"
	"github.com/a4s-io/a4s/server/addons/charts/release"
)

const (
	// defaultTimeout is that of Helm, and defaultRetries that of k3s.
	defaultTimeout = 5 * time.Minute
	defaultRetries = 1000
	// maxLabel is the longest value of a label.
	maxLabel = 63
)

// errMissing is a key that is not where the HelmChart says.
var errMissing = errors.New("no such key")

// wanted is what a HelmChart and its HelmChartConfig ask for.
type wanted struct {
	source         archive.Source
	documents      []release.Document
	policy         helmv1.FailurePolicy
	serverSide     helmv1.ServerSide
	forceConflicts bool
	hash           string
}

// wanted reads what a HelmChart refers to.
func (r *Reconciler) wanted(ctx context.Context, chart *helmv1.HelmChart) (*wanted, error) {
	spec := &chart.Spec
	w := &wanted{policy: spec.FailurePolicy, serverSide: spec.ServerSide, forceConflicts: spec.ForceConflicts}
	if err := r.Watches.Configs(); err != nil {
		r.Log.WithError(err).Warn("no change of a HelmChartConfig is noticed yet")
	}
	config, err := r.configOf(ctx, chart)
	if err != nil {
		return nil, err
	}
	// Before they are read, so that nothing changes between that is not told, and one that is absent can come.
	if err := r.Watches.Secrets(keyOf(chart), secretsOf(chart, config)); err != nil {
		return nil, err
	}
	if w.source, err = r.source(ctx, chart); err != nil {
		return nil, err
	}
	reader := valuesReader{Reconciler: r, namespace: chart.Namespace, wanted: w, hash: sha256.New()}
	reader.write(spec.Chart, spec.Version, spec.Repo, spec.ChartContent, namespaceOf(chart))
	if err := reader.add(ctx, "spec", spec.ValuesContent, spec.Values, spec.ValuesSecrets); err != nil {
		return nil, err
	}
	if config != nil {
		if err := reader.add(ctx, "HelmChartConfig: spec", config.Spec.ValuesContent, config.Spec.Values,
			config.Spec.ValuesSecrets); err != nil {
			return nil, err
		}
		if config.Spec.FailurePolicy != "" {
			w.policy = config.Spec.FailurePolicy
		}
		if config.Spec.ServerSide != "" {
			w.serverSide = config.Spec.ServerSide
		}
		if config.Spec.ForceConflicts != nil {
			w.forceConflicts = *config.Spec.ForceConflicts
		}
	}
	for _, key := range slices.Sorted(maps.Keys(spec.Set)) {
		value := spec.Set[key]
		reader.write(key, value.String(), fmt.Sprint(value.Type))
	}
	w.hash = hex.EncodeToString(reader.hash.Sum(nil))[:maxLabel]
	return w, nil
}

// secretsOf are the Secrets with values whose change makes another revision.
func secretsOf(chart *helmv1.HelmChart, config *helmv1.HelmChartConfig) map[string]bool {
	all := slices.Clone(chart.Spec.ValuesSecrets)
	if config != nil {
		all = append(all, config.Spec.ValuesSecrets...)
	}
	names := map[string]bool{}
	for _, s := range all {
		if len(s.Keys) > 0 && !s.IgnoreUpdates {
			names[s.Name] = true
		}
	}
	return names
}

// valuesReader collects values, and makes the hash of all that a release is made from.
type valuesReader struct {
	*Reconciler
	namespace string
	wanted    *wanted
	hash      interface {
		Write([]byte) (int, error)
		Sum([]byte) []byte
	}
}

// write adds texts to the hash so that no others have the same.
func (v valuesReader) write(texts ...string) {
	for _, text := range texts {
		data, _ := json.Marshal(text) //nolint:errchkjson // a text can be encoded
		v.hash.Write(data)            //nolint:errcheck // it cannot fail
	}
}

func (v valuesReader) document(from, text string) {
	v.wanted.documents = append(v.wanted.documents, release.Document{From: from, Text: text})
}

func (v valuesReader) add(ctx context.Context, from, text string, values *apiextensionsv1.JSON,
	secrets []helmv1.SecretSpec,
) error {
	v.write(from)
	if text != "" {
		v.write(text)
		v.document(from+".valuesContent", text)
	}
	if values != nil && len(values.Raw) > 0 && string(values.Raw) != "null" {
		v.write(string(values.Raw))
		v.document(from+".values", string(values.Raw))
	}
	for _, s := range secrets {
		if len(s.Keys) == 0 {
			continue
		}
		where := fmt.Sprintf("%s.valuesSecrets: Secret %s", from, s.Name)
		v.write(s.Name)
		secret, err := v.Core.CoreV1().Secrets(v.namespace).Get(ctx, s.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && s.IgnoreUpdates {
			continue
		} else if err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		for _, key := range s.Keys {
			v.write(key)
			data, ok := secret.Data[key]
			if !ok && s.IgnoreUpdates {
				continue
			} else if !ok {
				return fmt.Errorf("%s: %w: %q", where, errMissing, key)
			}
			if !s.IgnoreUpdates {
				v.write(string(data))
			}
			v.document(where+", key "+key, string(data))
		}
	}
	return nil
}

// source is where the chart is, with the credentials for it.
func (r *Reconciler) source(ctx context.Context, chart *helmv1.HelmChart) (archive.Source, error) {
	spec := &chart.Spec
	s := archive.Source{Content: spec.ChartContent, Chart: spec.Chart, Version: spec.Version, Repo: spec.Repo,
		CA: []byte(spec.RepoCA), PassCredentials: spec.AuthPassCredentials,
		InsecureSkipTLSVerify: spec.InsecureSkipTLSVerify, PlainHTTP: spec.PlainHTTP}
	if s.Content != "" {
		return s, nil
	}
	core := r.Core.CoreV1()
	if in := spec.RepoCAConfigMap; in != nil {
		bundle, err := core.ConfigMaps(chart.Namespace).Get(ctx, in.Name, metav1.GetOptions{})
		if err != nil {
			return s, fmt.Errorf("spec.repoCAConfigMap: %w", err)
		}
		for _, key := range slices.Sorted(maps.Keys(bundle.Data)) {
			s.CA = append(append(s.CA, '\n'), bundle.Data[key]...)
		}
	}
	if in := spec.AuthSecret; in != nil {
		secret, err := core.Secrets(chart.Namespace).Get(ctx, in.Name, metav1.GetOptions{})
		if err != nil {
			return s, fmt.Errorf("spec.authSecret: %w", err)
		}
		s.Username = string(secret.Data[corev1.BasicAuthUsernameKey])
		s.Password = string(secret.Data[corev1.BasicAuthPasswordKey])
		if s.Username == "" {
			return s, fmt.Errorf("spec.authSecret: Secret %s: %w: %q; want one of type %s", in.Name, errMissing,
				corev1.BasicAuthUsernameKey, corev1.SecretTypeBasicAuth)
		}
	}
	if in := spec.DockerRegistrySecret; in != nil {
		secret, err := core.Secrets(chart.Namespace).Get(ctx, in.Name, metav1.GetOptions{})
		if err != nil {
			return s, fmt.Errorf("spec.dockerRegistrySecret: %w", err)
		}
		if s.DockerConfig = secret.Data[corev1.DockerConfigJsonKey]; len(s.DockerConfig) == 0 {
			return s, fmt.Errorf("spec.dockerRegistrySecret: Secret %s: %w: %q; want one of type %s", in.Name,
				errMissing, corev1.DockerConfigJsonKey, corev1.SecretTypeDockerConfigJson)
		}
	}
	return s, nil
}

// configOf is the HelmChartConfig of a HelmChart, nil if it has none.
func (r *Reconciler) configOf(ctx context.Context, chart *helmv1.HelmChart) (*helmv1.HelmChartConfig, error) {
	got, err := r.Objects.Resource(Configs()).Namespace(chart.Namespace).
		Get(ctx, chart.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading the HelmChartConfig: %w", err)
	}
	config := &helmv1.HelmChartConfig{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(got.Object, config); err != nil {
		return nil, fmt.Errorf("reading the HelmChartConfig: %w", err)
	}
	return config, nil
}

func keyOf(chart *helmv1.HelmChart) types.NamespacedName {
	return types.NamespacedName{Namespace: chart.Namespace, Name: chart.Name}
}

// namespaceOf is where the release is.
func namespaceOf(chart *helmv1.HelmChart) string {
	if chart.Spec.TargetNamespace != "" {
		return chart.Spec.TargetNamespace
	}
	return chart.Namespace
}

func timeoutOf(chart *helmv1.HelmChart) time.Duration {
	if t := chart.Spec.Timeout; t != nil && t.Duration > 0 {
		return t.Duration
	}
	return defaultTimeout
}

func retriesOf(chart *helmv1.HelmChart) int {
	if limit := chart.Spec.BackOffLimit; limit != nil {
		return int(*limit)
	}
	return defaultRetries
}
