package defaultroles

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/a4s-io/a4s/internal/component"
)

// Name is the component's name.
const Name = "default-roles"

const (
	// pause is between two looks at the API, and at what judges by the roles.
	pause = 50 * time.Millisecond
	// writers is how many roles are made at the same time: the datastore makes
	// what comes together durable in one go.
	writers = 8
)

// Options configures the component.
type Options struct {
	// Client may read and make roles of any content.
	Client kubernetes.Interface
	// Sees reports whether requests are judged by ClusterRoles and
	// ClusterRoleBindings of these names.
	Sees func(roles, bindings sets.Set[string]) bool
	// Hook returns when upstream's own hook is through.
	Hook func(context.Context) error
	Log  *logrus.Entry
}

// New returns a component that is ready when requests are judged by the default
// roles.
func New(o Options) component.Component {
	return component.Component{Name: Name, Run: func(ctx context.Context, ready func()) error {
		if err := o.await(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		ready()
		<-ctx.Done()
		return nil
	}}
}

func (o Options) await(ctx context.Context) error {
	want := upstream()
	have, err := o.have(ctx, want)
	for err != nil {
		o.Log.WithError(err).Debug("the API does not tell its roles yet")
		if err = component.Sleep(ctx, pause); err != nil {
			return err
		}
		have, err = o.have(ctx, want)
	}
	switch {
	case have == 0:
		o.Log.Debug("making the default roles of a new cluster")
		if err := o.make(ctx, want); err != nil {
			return err
		}
	case have < len(want.roles)+len(want.bindings):
		// Of another version, or of a first start that was cut off.
		if err := o.Hook(ctx); err != nil {
			return err
		}
	}
	for !o.Sees(want.names()) {
		if err := component.Sleep(ctx, pause); err != nil {
			return err
		}
	}
	return nil
}

// policy is what upstream's hook makes.
type policy struct {
	roles             []rbacv1.ClusterRole
	bindings          []rbacv1.ClusterRoleBinding
	namespaced        map[string][]rbacv1.Role
	namespacedBinding map[string][]rbacv1.RoleBinding
}

func upstream() policy {
	return policy{
		roles:             append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...),
		bindings:          append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...),
		namespaced:        bootstrappolicy.NamespaceRoles(),
		namespacedBinding: bootstrappolicy.NamespaceRoleBindings(),
	}
}

func (p policy) names() (roles, bindings sets.Set[string]) {
	roles, bindings = sets.New[string](), sets.New[string]()
	for _, r := range p.roles {
		roles.Insert(r.Name)
	}
	for _, b := range p.bindings {
		bindings.Insert(b.Name)
	}
	return roles, bindings
}

// have counts the roles and bindings of the policy that the cluster has.
func (o Options) have(ctx context.Context, p policy) (int, error) {
	n := 0
	wantedRoles, wantedBindings := p.names()
	roles, err := o.Client.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("listing ClusterRoles: %w", err)
	}
	for _, r := range roles.Items {
		if wantedRoles.Has(r.Name) {
			n++
		}
	}
	bindings, err := o.Client.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("listing ClusterRoleBindings: %w", err)
	}
	for _, b := range bindings.Items {
		if wantedBindings.Has(b.Name) {
			n++
		}
	}
	return n, nil
}

// make makes all of the policy.
func (o Options) make(ctx context.Context, p policy) error {
	api := o.Client.RbacV1()
	var todo []func() error
	for _, r := range p.roles {
		todo = append(todo, func() error {
			_, err := api.ClusterRoles().Create(ctx, &r, metav1.CreateOptions{})
			return err
		})
	}
	for _, b := range p.bindings {
		todo = append(todo, func() error {
			_, err := api.ClusterRoleBindings().Create(ctx, &b, metav1.CreateOptions{})
			return err
		})
	}
	for namespace, roles := range p.namespaced {
		for _, r := range roles {
			todo = append(todo, func() error {
				_, err := api.Roles(namespace).Create(ctx, &r, metav1.CreateOptions{})
				return err
			})
		}
	}
	for namespace, bindings := range p.namespacedBinding {
		for _, b := range bindings {
			todo = append(todo, func() error {
				_, err := api.RoleBindings(namespace).Create(ctx, &b, metav1.CreateOptions{})
				return err
			})
		}
	}
	errs := make([]error, len(todo))
	workqueue.ParallelizeUntil(ctx, writers, len(todo), func(i int) { errs[i] = until(ctx, todo[i]) })
	return errors.Join(errs...)
}

// until repeats a create until its namespace, which the API makes itself at this
// time, is there. What upstream's hook made meanwhile is as good.
func until(ctx context.Context, create func() error) error {
	for {
		err := create()
		switch {
		case err == nil || apierrors.IsAlreadyExists(err):
			return nil
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("making a default role: %w", err)
		}
		if err := component.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}
