package admission

import (
	"k8s.io/apiserver/pkg/admission"
	core "k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/internal/space"
)

// nativeToken writes the native namespace into a Secret with the token of a
// service account, as pods and users read it there. The controller that fills
// such Secrets knows the composite one, and is content with any.
func nativeToken(attr admission.Attributes) {
	secret, ok := attr.GetObject().(*core.Secret)
	if !ok || secret.Type != core.SecretTypeServiceAccountToken {
		return
	}
	_, native := space.SplitNamespace(attr.GetNamespace())
	if string(secret.Data[core.ServiceAccountNamespaceKey]) == attr.GetNamespace() {
		secret.Data[core.ServiceAccountNamespaceKey] = []byte(native)
	}
}
