package main

import (
	"context"
	"crypto/x509/pkix"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	spacenames "github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/bench/sides"
)

const (
	// usableTimeout bounds how long a space may take to be usable.
	usableTimeout = 5 * time.Minute
	// knock is how often the user of a new space asks whether it is.
	knock = 50 * time.Millisecond
	// defaultAccount and rootCA are the service account and the config map that
	// every namespace gets.
	defaultAccount, rootCA = "default", "kube-root-ca.crt"
)

// space is a tenant or a namespace, as its user sees it: with a certificate and
// a connection of its own.
type space struct {
	namespace string
	apps      appsclient.AppsV1Interface
	core      coreclient.CoreV1Interface
}

// spaceMaker makes spaces with the rights of an administrator. A space of either
// kind has three namespaces, with what controllers put into each, and a user with
// all rights, by a role and its binding.
type spaceMaker struct {
	admin    kubernetes.Interface
	tenants  *tenantapi.Client // nil: spaces are namespaces
	signer   *sides.Signer
	accounts *arrivals // default service accounts, by namespace
	bundles  *arrivals // CA bundles, by namespace
}

func newSpaceMaker(ctx context.Context, s *sides.Side, tenants bool) (*spaceMaker, error) {
	signer, err := s.Signer()
	if err != nil {
		return nil, err
	}
	config := efficient(s.Config)
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	m := &spaceMaker{admin: admin, signer: signer, accounts: newArrivals(), bundles: newArrivals()}
	if tenants {
		if m.tenants, err = tenantapi.NewClient(config, nil); err != nil {
			return nil, err
		}
	}
	client := admin.CoreV1().RESTClient()
	accounts := resource{"serviceaccounts", &corev1.ServiceAccount{}, defaultAccount}
	if err := follow(ctx, client, accounts, m.accounts.handler()); err != nil {
		return nil, err
	}
	bundles := resource{"configmaps", &corev1.ConfigMap{}, rootCA}
	return m, follow(ctx, client, bundles, m.bundles.handler())
}

// handler notes the namespaces of objects.
func (a *arrivals) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		if o, ok := obj.(metav1.Object); ok {
			a.add(o.GetNamespace())
		}
	}}
}

// efficient is the same access with the encoding that programs use.
func efficient(access *rest.Config) *rest.Config {
	config := rest.CopyConfig(access)
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config
}

// makeOne makes a space and returns when its user has been served in it and all
// that a new space has is there.
func (m *spaceMaker) makeOne(ctx context.Context, name string) (*space, error) {
	ctx, cancel := context.WithTimeout(ctx, usableTimeout)
	defer cancel()
	begin := m.makeNamespaces
	if m.tenants != nil {
		begin = m.makeTenant
	}
	s, namespaces, err := begin(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("making space %s: %w", name, err)
	}
	if m.tenants != nil {
		// The first request makes the space.
		if _, err := s.core.ServiceAccounts(s.namespace).List(ctx, metav1.ListOptions{}); err != nil {
			return nil, fmt.Errorf("making space %s: %w", name, err)
		}
	}
	for _, of := range []*arrivals{m.accounts, m.bundles} {
		for _, namespace := range namespaces {
			if err := of.await(ctx, namespace); err != nil {
				return nil, fmt.Errorf("making space %s: %w", name, err)
			}
		}
	}
	for {
		_, err := s.core.ServiceAccounts(s.namespace).Get(ctx, defaultAccount, metav1.GetOptions{})
		if err == nil {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for space %s to serve its user: %w: %w", name, ctx.Err(), err)
		case <-time.After(knock):
		}
	}
}

// makeTenant returns the namespaces of the space as an administrator calls them.
func (m *spaceMaker) makeTenant(ctx context.Context, name string) (*space, []string, error) {
	tenant, err := m.tenants.Create(ctx, &tenantapi.Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, nil, err
	}
	access, err := m.signer.Client(pkix.Name{
		CommonName: "admin", Organization: []string{"tenant:" + name}, SerialNumber: string(tenant.UID),
	})
	if err != nil {
		return nil, nil, err
	}
	s, err := newSpace(tenantapi.InSpace(access, name), metav1.NamespaceDefault)
	return s, []string{
		spacenames.Namespace(name, metav1.NamespaceDefault),
		spacenames.Namespace(name, metav1.NamespaceSystem),
		spacenames.Namespace(name, metav1.NamespacePublic),
	}, err
}

// makeNamespaces makes what a tenant has, one object after the other.
func (m *spaceMaker) makeNamespaces(ctx context.Context, name string) (*space, []string, error) {
	namespaces := []string{name, name + "-system", name + "-public"}
	for _, n := range namespaces {
		if _, err := m.admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: n},
		}, metav1.CreateOptions{}); err != nil {
			return nil, nil, err
		}
	}
	all := []string{"*"}
	if _, err := m.admin.RbacV1().Roles(name).Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "admin"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: all, Resources: all, Verbs: all}},
	}, metav1.CreateOptions{}); err != nil {
		return nil, nil, err
	}
	user := "admin-of-" + name
	if _, err := m.admin.RbacV1().RoleBindings(name).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "admin"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{}); err != nil {
		return nil, nil, err
	}
	access, err := m.signer.User(user)
	if err != nil {
		return nil, nil, err
	}
	s, err := newSpace(access, name)
	return s, namespaces, err
}

func newSpace(access *rest.Config, namespace string) (*space, error) {
	config := efficient(access)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	s := &space{namespace: namespace}
	if s.apps, err = appsclient.NewForConfigAndClient(config, client); err != nil {
		return nil, err
	}
	s.core, err = coreclient.NewForConfigAndClient(config, client)
	return s, err
}

// makeAll makes several spaces, some at a time.
func (m *spaceMaker) makeAll(ctx context.Context, clients, n int, prefix string) ([]*space, error) {
	made := make([]*space, n)
	err := inParallel(ctx, clients, n, func(ctx context.Context, i int) (err error) {
		made[i], err = m.makeOne(ctx, fmt.Sprintf("%s-%04d", prefix, i))
		return err
	})
	return made, err
}
