package users

import (
	"context"
	"crypto/x509/pkix"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Space is a tenant or a namespace, as its user sees it: with a certificate and
// a connection of its own.
type Space struct {
	Namespace string
	Apps      appsclient.AppsV1Interface
	Core      coreclient.CoreV1Interface
}

// Maker makes spaces with the rights of an administrator. A space of either
// kind has three namespaces, with what controllers put into each, and a user with
// all rights, by a role and its binding.
type Maker struct {
	// Partition is where tenants are made, "" for wherever there is room.
	Partition string
	Admin     kubernetes.Interface
	tenants   *tenantapi.Client // nil: spaces are namespaces
	Signer    *sides.Signer
	Accounts  *Arrivals // default service accounts, by namespace
	bundles   *Arrivals // CA bundles, by namespace
}

// NewMaker returns one for a side, which makes tenants or namespaces.
func NewMaker(ctx context.Context, s *sides.Side, tenants bool) (*Maker, error) {
	signer, err := s.Signer()
	if err != nil {
		return nil, err
	}
	config := sides.Efficient(s.Config)
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	m := &Maker{Admin: admin, Signer: signer, Accounts: NewArrivals(), bundles: NewArrivals()}
	if tenants {
		if m.tenants, err = tenantapi.NewClient(config, nil); err != nil {
			return nil, err
		}
	}
	client := admin.CoreV1().RESTClient()
	accounts := Resource{"serviceaccounts", &corev1.ServiceAccount{}, defaultAccount}
	if err := Follow(ctx, client, accounts, m.Accounts.handler()); err != nil {
		return nil, err
	}
	bundles := Resource{"configmaps", &corev1.ConfigMap{}, rootCA}
	return m, Follow(ctx, client, bundles, m.bundles.handler())
}

// handler notes the namespaces of objects.
func (a *Arrivals) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		if o, ok := obj.(metav1.Object); ok {
			a.Add(o.GetNamespace())
		}
	}}
}

// MakeOne makes a space and returns when its user has been served in it and all
// that a new space has is there.
func (m *Maker) MakeOne(ctx context.Context, name string) (*Space, error) {
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
		// The first request makes the space. The server of another partition may hear of a new
		// tenant a moment late.
		if err := sides.Await(ctx, "its first answer", func() error {
			_, err := s.Core.ServiceAccounts(s.Namespace).List(ctx, metav1.ListOptions{})
			return err
		}); err != nil {
			return nil, fmt.Errorf("making space %s: %w", name, err)
		}
	}
	for _, of := range []*Arrivals{m.Accounts, m.bundles} {
		for _, namespace := range namespaces {
			if err := of.Await(ctx, namespace); err != nil {
				return nil, fmt.Errorf("making space %s: %w", name, err)
			}
		}
	}
	for {
		_, err := s.Core.ServiceAccounts(s.Namespace).Get(ctx, defaultAccount, metav1.GetOptions{})
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
func (m *Maker) makeTenant(ctx context.Context, name string) (*Space, []string, error) {
	tenant, err := m.tenants.Create(ctx, &tenantapi.Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: tenantapi.TenantSpec{Partition: m.Partition},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, nil, err
	}
	access, err := m.Signer.Client(pkix.Name{
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
func (m *Maker) makeNamespaces(ctx context.Context, name string) (*Space, []string, error) {
	namespaces := []string{name, name + "-system", name + "-public"}
	for _, n := range namespaces {
		if _, err := m.Admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: n},
		}, metav1.CreateOptions{}); err != nil {
			return nil, nil, err
		}
	}
	all := []string{"*"}
	if _, err := m.Admin.RbacV1().Roles(name).Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "admin"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: all, Resources: all, Verbs: all}},
	}, metav1.CreateOptions{}); err != nil {
		return nil, nil, err
	}
	user := "admin-of-" + name
	if _, err := m.Admin.RbacV1().RoleBindings(name).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "admin"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{}); err != nil {
		return nil, nil, err
	}
	access, err := m.Signer.User(user)
	if err != nil {
		return nil, nil, err
	}
	s, err := newSpace(access, name)
	return s, namespaces, err
}

func newSpace(access *rest.Config, namespace string) (*Space, error) {
	config := sides.Efficient(access)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	s := &Space{Namespace: namespace}
	if s.Apps, err = appsclient.NewForConfigAndClient(config, client); err != nil {
		return nil, err
	}
	s.Core, err = coreclient.NewForConfigAndClient(config, client)
	return s, err
}

// MakeAll makes several spaces, some at a time.
func (m *Maker) MakeAll(ctx context.Context, clients, n int, prefix string) ([]*Space, error) {
	made := make([]*Space, n)
	err := InParallel(ctx, clients, n, func(ctx context.Context, i int) (err error) {
		made[i], err = m.MakeOne(ctx, fmt.Sprintf("%s-%04d", prefix, i))
		return err
	})
	return made, err
}
