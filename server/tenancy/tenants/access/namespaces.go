package access

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// namespacesOf are the namespaces that an access says, in which whoever made it has had rights.
func namespacesOf(a *tenantapi.TenantAccess) []string {
	names := []string{a.Spec.Secret.Namespace}
	if a.Spec.Namespace != "" {
		names = append(names, a.Spec.Namespace)
	}
	if account := a.Spec.ServiceAccount; account != nil {
		names = append(names, account.Namespace)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// sameNamespaces reports, as an error, that a namespace of an access in the space of a tenant has been made again
// since rights in it were looked at: those rights ended with the one before, and the new one may be somebody else's.
// Rights in one that was not there at all are rights in every namespace, so the first one that is there is taken.
//
// The status names them before anything is given.
func (w *work) sameNamespaces(ctx context.Context) error {
	if !w.isOwn {
		return nil
	}
	var known []tenantapi.AccessNamespace
	var replaced []string
	for _, name := range namespacesOf(w.a) {
		at := slices.IndexFunc(w.a.Status.Namespaces, func(n tenantapi.AccessNamespace) bool {
			return n.Name == name && n.Generation == w.a.Generation // a change of the access looks at rights anew
		})
		is, err := w.home.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			return fmt.Errorf("looking for the namespace %s: %w", name, err)
		case at >= 0:
			known = append(known, w.a.Status.Namespaces[at])
			if err == nil && is.UID != w.a.Status.Namespaces[at].UID {
				replaced = append(replaced, name)
			}
		case err == nil:
			known = append(known, tenantapi.AccessNamespace{Name: name, UID: is.UID, Generation: w.a.Generation})
		}
	}
	if !apiequality.Semantic.DeepEqual(known, w.a.Status.Namespaces) {
		w.a.Status.Namespaces = known
		if err := w.writeStatus(ctx); err != nil {
			return err
		}
	}
	if len(replaced) > 0 {
		return failed(tenantapi.ReasonNamespace, "the namespace %s has been made again since the access was made or "+
			"changed: who has the rights in it that the access needs changes the access, or makes it again",
			strings.Join(replaced, " and "))
	}
	return nil
}
