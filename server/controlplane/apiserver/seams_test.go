package apiserver

import (
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

// What every tenant has is not indexed by namespaces that nobody asks for.
func TestWhatIsIndexedByNamespace(t *testing.T) {
	f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	// Upstream's authentication asks for it before the seams are there.
	f.Core().V1().ServiceAccounts().Lister()
	seams := Seams{Kept: func(obj any) (any, error) { return obj, nil }}
	if err := seams.applyKept(f); err != nil {
		t.Fatal(err)
	}
	core, rbac := f.Core().V1(), f.Rbac().V1()
	for name, c := range map[string]struct {
		informer cache.SharedIndexInformer
		indexed  bool
	}{
		"namespaces":          {core.Namespaces().Informer(), false},
		"serviceaccounts":     {core.ServiceAccounts().Informer(), false},
		"services":            {core.Services().Informer(), false},
		"clusterroles":        {rbac.ClusterRoles().Informer(), false},
		"clusterrolebindings": {rbac.ClusterRoleBindings().Informer(), false},
		"rolebindings":        {rbac.RoleBindings().Informer(), true},
		"pods":                {core.Pods().Informer(), true},
	} {
		if _, indexed := c.informer.GetIndexer().GetIndexers()[cache.NamespaceIndex]; indexed != c.indexed {
			t.Errorf("%s: indexed %t", name, indexed)
		}
	}
}
