package admission

import (
	"fmt"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/authentication"
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

// checkToken keeps the tokens of a space to its own objects. What upstream takes
// besides pods and Secrets is looked up by its bare name among the system's, nodes
// and webhook configurations, and the answer says whether it is there.
func checkToken(request *authentication.TokenRequest) error {
	ref := request.Spec.BoundObjectRef
	if ref == nil || ref.Kind == "Pod" || ref.Kind == "Secret" {
		return nil
	}
	return fmt.Errorf("spec.boundObjectRef is a %s, and tokens of a tenant are bound to a Pod or a Secret", ref.Kind)
}
