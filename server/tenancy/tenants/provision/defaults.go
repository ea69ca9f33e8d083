package provision

import (
	"context"
	"fmt"
	"net/http"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"

	"github.com/a4s-io/a4s/internal/space"
)

// Names of the default objects, in native form.
const (
	// adminRole and adminBinding make the user and the group below
	// administrators of the space.
	adminRole    = "admin-role"
	adminBinding = "admin-role-binding"
	adminUser    = space.Admin
	adminGroup   = space.Masters

	// account is the service account of pods that name none.
	account = "default"
	// bundleKey is where the CA bundle is in its ConfigMap.
	bundleKey = "ca.crt"

	// extensionConfig is the ConfigMap of servers behind the API server, and the beginning
	// of the name of the role that reads it.
	extensionConfig = "extension-apiserver-authentication"
)

// namespaces are those that every space has.
func namespaces() []string {
	return []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}
}

// Maker makes the default objects of spaces.
type Maker struct {
	client kubernetes.Interface
	// inside makes what is in the namespaces of a space before that is made.
	inside kubernetes.Interface
}

// NewMaker makes one. The configuration is that of a system user with all rights.
func NewMaker(config *restclient.Config, http *http.Client) (*Maker, error) {
	client, err := kubernetes.NewForConfigAndClient(config, http)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	// As a controller, whose requests in the namespaces of a space do not wait until that is made.
	config = restclient.CopyConfig(config)
	config.Impersonate = restclient.ImpersonationConfig{UserName: user.KubeControllerManager,
		Groups: []string{user.SystemPrivilegedGroup}}
	inside, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &Maker{client, inside}, nil
}

// Make makes what is missing of the default objects of a space. What pods need in its
// namespaces is left to upstream's controllers.
func (m *Maker) Make(ctx context.Context, tenant string, log *logrus.Entry) error {
	if tenant == space.System {
		return makeSystem(ctx, m.client) // upstream makes the rest there
	}
	if err := defaults(ctx, m.client, tenant); err != nil {
		return err
	}
	return extensionDefaults(ctx, m.inside, tenant, log)
}

func defaults(ctx context.Context, client kubernetes.Interface, tenant string) error {
	// None needs another one, and each waits for the datastore.
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range namespaces() {
		group.Go(func() error {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space.Namespace(tenant, name)}}
			_, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
			return made("namespace", name, err)
		})
	}
	group.Go(func() error {
		_, err := client.RbacV1().ClusterRoles().Create(ctx, adminClusterRole(tenant), metav1.CreateOptions{})
		return made("cluster role", adminRole, err)
	})
	group.Go(func() error {
		_, err := client.RbacV1().ClusterRoleBindings().Create(ctx, adminClusterRoleBinding(tenant),
			metav1.CreateOptions{})
		return made("cluster role binding", adminBinding, err)
	})
	return group.Wait()
}

// extensionDefaults makes what servers of APIs look for at their start, in a namespace of
// defaults: how users are authenticated who come to them by the API server, and the role to
// read it. The API server leads nobody to such a server in a space, and the cluster's client
// CA signs for the users of all tenants, so there is nothing in it: these servers go on
// without. It comes before the report that the space is made, because nobody makes them later.
// A space that has no room for them is made without.
func extensionDefaults(ctx context.Context, client kubernetes.Interface, tenant string, log *logrus.Entry) error {
	in := space.Namespace(tenant, metav1.NamespaceSystem)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		_, err := client.CoreV1().ConfigMaps(in).Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: extensionConfig}}, metav1.CreateOptions{})
		return made("config map", extensionConfig, err)
	})
	group.Go(func() error {
		_, err := client.RbacV1().Roles(in).Create(ctx, &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Name: extensionConfig + "-reader"},
			Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""},
				Resources: []string{"configmaps"}, ResourceNames: []string{extensionConfig}}},
		}, metav1.CreateOptions{})
		return made("role", extensionConfig+"-reader", err)
	})
	err := group.Wait()
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonTooManyRequests:
		log.WithError(err).Warn("servers of APIs in the space do not find how to authenticate")
		return nil
	}
	return err
}

// podDefaults returns when the namespaces of defaults have what pods need: the service
// account, and the CA bundle rootCA (PEM), with which they verify the API. Upstream's
// controllers make both in every namespace, and log an error when somebody else does it
// meanwhile, so only what they are late with is made here.
func podDefaults(ctx context.Context, client kubernetes.Interface, tenant, rootCA string) error {
	cached := metav1.GetOptions{ResourceVersion: "0"}
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range namespaces() {
		in := space.Namespace(tenant, name)
		group.Go(func() error {
			accounts := client.CoreV1().ServiceAccounts(in)
			return awaitOrMake(ctx, "service account", name+"/"+account, func() error {
				_, err := accounts.Get(ctx, account, cached)
				return err
			}, func() error {
				_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}},
					metav1.CreateOptions{})
				return err
			})
		})
		group.Go(func() error {
			const bundle = rootcacertpublisher.RootCACertConfigMapName
			maps := client.CoreV1().ConfigMaps(in)
			return awaitOrMake(ctx, "config map", name+"/"+bundle, func() error {
				_, err := maps.Get(ctx, bundle, cached)
				return err
			}, func() error {
				_, err := maps.Create(ctx, &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Name: bundle, Annotations: map[string]string{
						// The controller would write the object again without it.
						rootcacertpublisher.DescriptionAnnotation: rootcacertpublisher.Description,
					}},
					Data: map[string]string{bundleKey: rootCA},
				}, metav1.CreateOptions{})
				return err
			})
		})
	}
	return group.Wait()
}

// awaitOrMake waits a while for an object that others make, and then makes it.
func awaitOrMake(ctx context.Context, kind, name string, get, create func() error) error {
	err := wait.PollUntilContextTimeout(ctx, look, late, true, func(context.Context) (bool, error) {
		err := get() // without the deadline of the poll: the API server logs requests that are cut short
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err == nil {
		return nil
	}
	return made(kind, name, create())
}

// makeSystem makes what the system space has besides what every cluster has: the
// same binding as every space, for the user of the same name.
func makeSystem(ctx context.Context, client kubernetes.Interface) error {
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: adminBinding},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: space.Admins}},
	}
	_, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	return made("cluster role binding", adminBinding, err)
}

// made is the error of a creation, unless the object is there.
func made(kind, name string, err error) error {
	if err == nil || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return fmt.Errorf("making the %s %s: %w", kind, name, err)
}

func adminClusterRole(tenant string) *rbacv1.ClusterRole {
	all := []string{"*"}
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: space.ClusterName(tenant, adminRole)},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: all, Resources: all, Verbs: all},
			{NonResourceURLs: all, Verbs: all},
		},
	}
}

func adminClusterRoleBinding(tenant string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: space.ClusterName(tenant, adminBinding)},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: space.ClusterName(tenant, adminRole)},
		Subjects: []rbacv1.Subject{
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: adminUser},
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: adminGroup},
		},
	}
}
