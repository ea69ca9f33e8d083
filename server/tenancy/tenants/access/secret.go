package access

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/clientcmd/api/latest"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

const (
	// manager owns the fields of a Secret that the access says.
	manager = "a4s-tenant-access"
	// askedAnnotation is on the Secret, with what the access said of the life of its credentials
	// when they were made.
	askedAnnotation = "a4s.io/asked-life"
	// keyKubeconfig is where Flux and Cluster API look for a kubeconfig.
	keyKubeconfig = "value"
	// argoLabel is what Argo CD finds its clusters by.
	argoLabel, argoCluster = "argocd.argoproj.io/secret-type", "cluster"
)

func secretResource() schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource(string(corev1.ResourceSecrets))
}

// find finds the Secret of an access, nil if there is none. One that somebody else made is an
// error.
func (w *work) find(ctx context.Context) (*corev1.Secret, error) {
	a, at := w.a, w.a.Spec.Secret
	secret, err := w.home.CoreV1().Secrets(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("looking for the Secret: %w", err)
	case !metav1.IsControlledBy(secret, a):
		return nil, failed(tenantapi.ReasonSecretTaken, "the Secret %s/%s is there and is not this access's: it is "+
			"left alone. Delete it, or make another TenantAccess that names another one", at.Namespace, at.Name)
	}
	return secret, nil
}

// ownerOf is the reference by which something belongs to an access.
func ownerOf(a *tenantapi.TenantAccess) *metav1.OwnerReference {
	return metav1.NewControllerRef(a, tenantapi.GroupVersion().WithKind(tenantapi.AccessKind))
}

// write makes the Secret of an access what it says. is is what there is, nil for none.
func (w *work) write(ctx context.Context, is *corev1.Secret, creds *credentials) error {
	a := w.a
	ca, err := w.o.ServerCA()
	if err != nil {
		return err
	}
	server := w.o.Server
	if a.Spec.Server != "" {
		server = a.Spec.Server
	}
	data, err := contents(a, server, ca, creds)
	if err != nil {
		return err
	}
	labels := labelsOf(a)
	annotations, same := map[string]string{}, func(a, b string) bool { return a == b }
	if creds.asked != "" {
		annotations[askedAnnotation] = creds.asked
	}
	if is != nil && has(is.Data, data, bytes.Equal) && has(is.Labels, labels, same) &&
		has(is.Annotations, annotations, same) {
		return nil
	}
	secrets := w.home.CoreV1().Secrets(a.Spec.Secret.Namespace)
	if is == nil {
		// An apply would take one over that has been made meanwhile.
		if is, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: a.Spec.Secret.Name,
			OwnerReferences: []metav1.OwnerReference{*ownerOf(a)}}}, metav1.CreateOptions{FieldManager: Name},
		); err != nil {
			return fmt.Errorf("making the Secret: %w", err)
		}
	}
	// Labels and keys that the access has no more go by it; those of others stay.
	_, err = secrets.Apply(ctx, applycorev1.Secret(is.Name, is.Namespace).WithUID(is.UID).WithLabels(labels).
		WithAnnotations(annotations).WithData(data), metav1.ApplyOptions{FieldManager: manager, Force: true})
	if err != nil {
		return fmt.Errorf("writing the Secret: %w", err)
	}
	return nil
}

// has reports whether values are among all, by their keys. There can be others, of others.
func has[V any](all, values map[string]V, equal func(a, b V) bool) bool {
	for key, value := range values {
		if is, ok := all[key]; !ok || !equal(is, value) {
			return false
		}
	}
	return true
}

// labelsOf are the labels of the Secret of an access.
func labelsOf(a *tenantapi.TenantAccess) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, a.Spec.Secret.Labels)
	if a.Spec.Secret.Format == tenantapi.FormatArgoCD {
		labels[argoLabel] = argoCluster
	}
	labels[tenantapi.AccessLabel] = a.Name
	return labels
}

// contents is what the Secret of an access has: the credentials by themselves, and in the form of
// who reads it.
func contents(
	a *tenantapi.TenantAccess, server string, ca []byte, creds *credentials,
) (map[string][]byte, error) {
	data := map[string][]byte{corev1.ServiceAccountRootCAKey: ca}
	if creds.token != "" {
		data[corev1.ServiceAccountTokenKey] = []byte(creds.token)
	} else {
		data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey] = creds.certificate, creds.key
	}
	// Argo CD knows a cluster by its address: each tenant has one of its own.
	server += "/tenants/" + a.Spec.Tenant
	if a.Spec.Secret.Format == tenantapi.FormatArgoCD {
		return data, argo(data, a, server, ca, creds)
	}
	var err error
	data[keyKubeconfig], err = kubeconfig(a, server, ca, creds)
	return data, err
}

// kubeconfig is one for the space, as that of a4s tenant kubeconfig.
func kubeconfig(a *tenantapi.TenantAccess, server string, ca []byte, creds *credentials) ([]byte, error) {
	user := a.Spec.User
	if account := a.Spec.ServiceAccount; account != nil {
		user = account.Namespace + "/" + account.Name
	}
	tenant, name := a.Spec.Tenant, user+"@"+a.Spec.Tenant
	cluster, auth, context := api.NewCluster(), api.NewAuthInfo(), api.NewContext()
	cluster.Server, cluster.CertificateAuthorityData = server, ca
	auth.ClientCertificateData, auth.ClientKeyData, auth.Token = creds.certificate, creds.key, creds.token
	context.Cluster, context.AuthInfo, context.Namespace = tenant, name, metav1.NamespaceDefault
	if a.Spec.Namespace != "" {
		context.Namespace = a.Spec.Namespace
	}
	config := api.NewConfig()
	config.Clusters[tenant], config.AuthInfos[name] = cluster, auth
	config.Contexts[name], config.CurrentContext = context, name
	data, err := runtime.Encode(latest.Codec, config)
	if err != nil {
		return nil, fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	return data, nil
}

// argoConfig is what Argo CD reads of the key "config".
type argoConfig struct {
	BearerToken string  `json:"bearerToken,omitempty"`
	TLS         argoTLS `json:"tlsClientConfig"`
}

type argoTLS struct {
	Insecure bool   `json:"insecure"`
	CA       []byte `json:"caData"`
	Cert     []byte `json:"certData,omitempty"`
	Key      []byte `json:"keyData,omitempty"`
}

// argo adds what Argo CD reads.
func argo(data map[string][]byte, a *tenantapi.TenantAccess, server string, ca []byte, creds *credentials) error {
	config, err := json.Marshal(argoConfig{BearerToken: creds.token,
		TLS: argoTLS{CA: ca, Cert: creds.certificate, Key: creds.key}})
	if err != nil {
		return fmt.Errorf("encoding a cluster of Argo CD: %w", err)
	}
	data["name"], data["server"], data["config"] = []byte(a.Spec.Tenant), []byte(server), config
	if a.Spec.Namespace != "" {
		data["namespaces"] = []byte(a.Spec.Namespace) // it may not ask for all of them
	}
	return nil
}
