package admission

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/authentication"
	core "k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/server/tenancy/nodes"
)

func TestNamespaceOfTokens(t *testing.T) {
	for _, c := range []struct {
		kind                  core.SecretType
		namespace, said, want string
	}{
		{core.SecretTypeServiceAccountToken, "default.t1", "default.t1", "default"},
		{core.SecretTypeServiceAccountToken, "default.t1", "default", "default"},
		// not what the controller writes
		{core.SecretTypeServiceAccountToken, "default.t1", "default.t2", "default.t2"},
		{core.SecretTypeServiceAccountToken, "default", "default", "default"},
		{core.SecretTypeOpaque, "default.t1", "default.t1", "default.t1"},
	} {
		secret := &core.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: c.namespace}, Type: c.kind,
			Data: map[string][]byte{"namespace": []byte(c.said)}}
		nativeToken(admission.NewAttributesRecord(secret, nil,
			schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, c.namespace, "s",
			schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "", admission.Update, nil, false, nil))
		if got := string(secret.Data["namespace"]); got != c.want {
			t.Errorf("%s in %s that says %s: %s", c.kind, c.namespace, c.said, got)
		}
	}
	empty := &core.Secret{Type: core.SecretTypeServiceAccountToken}
	nativeToken(admission.NewAttributesRecord(empty, nil,
		schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, "default.t1", "s",
		schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "", admission.Create, nil, false, nil))
	if empty.Data != nil {
		t.Errorf("a new Secret has %v", empty.Data)
	}
}

func TestTokensAreBoundInTheSpace(t *testing.T) {
	g, err := newGuard(annotated{}, nodes.New(annotated{}))
	if err != nil {
		t.Fatal(err)
	}
	kind := schema.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}
	for bound, ok := range map[string]bool{"": true, "Pod": true, "Secret": true, "Node": false,
		"ValidatingWebhookConfiguration": false, "Anything": false} {
		request := &authentication.TokenRequest{}
		if bound != "" {
			request.Spec.BoundObjectRef = &authentication.BoundObjectReference{Kind: bound, Name: "x"}
		}
		if err := g.check(t.Context(), "t1", true, update(t, kind, request, nil, "token")); (err == nil) != ok {
			t.Errorf("bound to a %q: %v", bound, err)
		}
		if err := g.check(t.Context(), "t1", false, update(t, kind, request, nil, "token")); err != nil {
			t.Errorf("bound to a %q by a node: %v", bound, err)
		}
	}
}
