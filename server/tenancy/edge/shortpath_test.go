package edge

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/pki"
)

type fakeAccounts struct{}

func (fakeAccounts) IsController(name string) bool { return name == "namespace-controller" }

func (fakeAccounts) InAllSpaces(namespace, name string) bool {
	return namespace == "storage" && name == "provisioner"
}

// TestShortPathsOfTheSystem has who is confined to the space of the system on a short
// path, and what is refused there.
func TestShortPathsOfTheSystem(t *testing.T) {
	const (
		pods, roles = "/api/v1/pods", "/apis/rbac.authorization.k8s.io/v1/clusterroles"
		account     = "system:serviceaccount:tekton:controller"
		whole       = "whole"
		confined    = "confined"
		refused     = "refused"
	)
	for _, c := range []struct {
		who, as, method, path, command, want string
	}{
		// Administrators see the whole cluster.
		{who: "system:admin", path: pods, want: whole},
		{who: "system:admin", path: roles, command: "kubectl get", want: whole},
		{who: "system:admin", path: roles + "/x.t1.tenant", command: "kubectl edit", want: whole},
		{who: "system:admin", path: pods, command: "kubectl drain", want: whole},
		{who: "system:admin", path: pods, command: "kubectl rollout status", want: whole},
		{who: "system:admin", path: pods + "?watch=1", want: whole},
		// They change what they list in the space of the system.
		{who: "system:admin", path: roles + "?labelSelector=team%3Dx", command: "kubectl delete", want: confined},
		{who: "system:admin", path: pods, command: "kubectl label", want: confined},
		{who: "system:admin", path: pods, command: "kubectl rollout restart", want: confined},
		{who: "system:admin", path: pods, command: "kubectl of-another-time", want: confined},
		{who: "system:admin", method: http.MethodDelete, path: roles, want: confined},
		{who: "system:admin", method: http.MethodPost, path: roles, want: confined},
		{who: "system:admin", method: http.MethodPost, path: "/api/v1/nodes", want: whole},
		{who: "system:admin", method: http.MethodDelete, path: roles + "/x", want: whole},
		{who: "system:admin", method: http.MethodDelete, path: roles + "/x.t1.tenant", want: refused},
		{who: "system:admin", method: http.MethodPut, path: roles + "/x.t1.tenant", want: refused},
		{who: "system:admin", method: http.MethodPatch, path: "/api/v1/namespaces/default.t1", want: refused},
		{who: "system:admin", method: http.MethodPut, path: "/api/v1/namespaces/default.t1/finalize", want: refused},
		// A namespace in the path names the space.
		{who: "system:admin", path: "/api/v1/namespaces/default.t1/pods", command: "kubectl delete", want: whole},
		{who: "system:admin", method: http.MethodPost, path: "/api/v1/namespaces/default.t1/pods/x/eviction",
			want: whole},
		// Programs in the space of the system have that alone.
		{who: account, path: pods, want: confined},
		{who: account, path: pods + "?watch=1", want: confined},
		{who: account, path: "/api/v1/namespaces/default/pods/x", want: confined},
		{who: account, path: "/api/v1/namespaces/default.t1/pods/x", want: refused},
		{who: account, path: "/api/v1/namespaces/default.t1", want: refused},
		{who: account, path: roles + "/x.t1.tenant", want: refused},
		{who: account, method: http.MethodPost, path: "/api/v1/namespaces/default.t1/pods", want: refused},
		{who: account, path: "/apis", want: whole},
		// Servers of APIs ask about users of all spaces.
		{who: account, method: http.MethodPost, path: "/apis/authorization.k8s.io/v1/subjectaccessreviews",
			want: whole},
		{who: account, method: http.MethodPost, path: "/apis/authentication.k8s.io/v1/tokenreviews", want: whole},
		{who: "system:admin", as: account, path: pods, want: confined},
		{who: "system:serviceaccount:storage:provisioner", path: pods, want: whole},
		{who: "system:serviceaccount:storage:provisioner", method: http.MethodDelete, path: roles + "/x.t1.tenant",
			want: whole},
		{who: "system:serviceaccount:kube-system:operator", path: pods, want: confined},
		// What the cluster is made of works on everything.
		{who: "system:serviceaccount:kube-system:namespace-controller", method: http.MethodPut,
			path: "/api/v1/namespaces/default.t1/finalize", want: whole},
		{who: "system:serviceaccount:elsewhere:namespace-controller", path: pods, want: confined},
		{who: user.KubeControllerManager, method: http.MethodPut, path: "/api/v1/persistentvolumes/x.t1.tenant",
			want: whole},
		{who: user.KubeScheduler, method: http.MethodPut, path: "/api/v1/persistentvolumes/x.t1.tenant", want: whole},
		{who: pki.UserSupervisor, method: http.MethodDelete, path: roles, want: whole},
	} {
		req := httptest.NewRequest(http.MethodGet, c.path, nil)
		if c.method != "" {
			req.Method = c.method
		}
		if c.as != "" {
			req.Header.Set("Impersonate-User", c.as)
		}
		req.Header.Set("Kubectl-Command", c.command)
		r := read(req)
		r.identify(&user.DefaultInfo{Name: c.who}, req.Header)
		ok, err := confineShort(fakeAccounts{}, r, req.Header)
		got := whole
		switch {
		case err != nil:
			got = refused
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "/tenants/t1/") ||
				!strings.Contains(err.Error(), "a4s kubectl --tenant t1") || strings.Contains(err.Error(), "/x.t1") {
				t.Errorf("%+v: %v", c, err)
			}
		case ok:
			got = confined
		}
		if got != c.want {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
	node := &user.DefaultInfo{Name: "system:node:n", Groups: []string{user.NodesGroup}}
	r := read(httptest.NewRequest(http.MethodGet, pods, nil))
	r.identify(node, nil)
	if ok, err := confineShort(fakeAccounts{}, r, http.Header{}); ok || err != nil {
		t.Errorf("a node is confined: %t, %v", ok, err)
	}
}
