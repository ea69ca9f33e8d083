package clients

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestManager runs managers with leader election in both tenants, whose
// namespaces, leases and objects have the same names as far as possible. What
// distinguishes them is in each name: "anvil" is of acme, "gizmo" of globex.
func TestManager(t *testing.T) {
	t.Parallel()
	t.Run("json", func(t *testing.T) {
		t.Parallel()
		runManagers(t, "ops-json", runtime.ContentTypeJSON, acme.config(t, acme.prefixed))
	})
	t.Run("protobuf", func(t *testing.T) {
		t.Parallel()
		runManagers(t, "ops-protobuf", runtime.ContentTypeProtobuf, serviceAccount(t, acme, "ops-protobuf"))
	})
}

// serviceAccount makes the identity that operators have, on plain addresses.
func serviceAccount(t *testing.T, s *space, name string) *rest.Config {
	t.Helper()
	const namespace = metav1.NamespaceSystem
	kube := s.client(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	if _, err := kube.CoreV1().ServiceAccounts(namespace).
		Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace}},
	}
	if _, err := kube.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := rest.AnonymousClientConfig(s.config(t, s.byIdentity))
	cfg.BearerToken, cfg.QPS = token.Status.Token, -1
	return cfg
}

// operator is a running manager.
type operator struct {
	manager.Manager
	reconciler *reconciler
	wire       *wire
	stop       func() error
}

// startOperator starts a manager that handles the group, which is also the
// name of its lease. It ends with the test at the latest.
func startOperator(t *testing.T, cfg *rest.Config, contentType, name, group, canary string) *operator {
	t.Helper()
	o := &operator{wire: &wire{canary: canary, json: contentType == runtime.ContentTypeJSON}}
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType = contentType
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &connection{wire: o.wire, next: next} })
	unchecked := true // two of the same in one process
	var err error
	o.Manager, err = ctrl.NewManager(cfg, ctrl.Options{
		Logger:                        logr.Discard(),
		LeaderElection:                true,
		LeaderElectionID:              group,
		LeaderElectionNamespace:       metav1.NamespaceSystem,
		LeaderElectionReleaseOnCancel: true,
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		Controller:                    config.Controller{SkipNameValidation: &unchecked},
	})
	if err != nil {
		t.Fatal(err)
	}
	o.reconciler = &reconciler{Client: o.GetClient(), name: name, group: group, events: o.GetEventRecorder(name)}
	err = ctrl.NewControllerManagedBy(o.Manager).
		For(&appsv1.Deployment{}).
		Owns(&corev1.ConfigMap{}).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(o.reconciler.all)).
		Complete(o.reconciler)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- o.Start(ctx) }()
	var stopped bool
	o.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() { _ = o.stop() }) // a test that has not stopped it failed before
	return o
}

// all asks for every Deployment of the group.
func (r *reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	var list appsv1.DeploymentList
	if err := r.List(ctx, &list, client.MatchingLabels{watchedLabel: r.group}); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

func (o *operator) elected() bool {
	select {
	case <-o.Elected():
		return true
	default:
		return false
	}
}

func (o *operator) mustBeElected(t *testing.T) {
	t.Helper()
	eventually(t, o.reconciler.name+" to lead", func(context.Context) error {
		if !o.elected() {
			return errors.New("it does not")
		}
		return nil
	})
}

func runManagers(t *testing.T, group, contentType string, cfg *rest.Config) {
	ours, theirs := acme.client(t), globex.client(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: group}}
	for _, kube := range []kubernetes.Interface{ours, theirs} {
		if _, err := kube.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// There before the managers, to be in what they list.
	createDeployment(t, theirs, group, "gizmo")
	createSecret(t, theirs, group, group, "gizmo")

	first := startOperator(t, cfg, contentType, "first", group, "gizmo")
	first.mustBeElected(t)
	second := startOperator(t, cfg, contentType, "second", group, "gizmo")
	// A leader of the same lease in the other tenant, at the same time.
	other := startOperator(t, globex.config(t, globex.byIdentity), contentType, "other", group, "anvil")
	other.mustBeElected(t)
	leader := leaseHolder(t, ours, group)
	if leader == "" || leader == leaseHolder(t, theirs, group) {
		t.Errorf("the lease is held by %q here and by %q in the other tenant", leader, leaseHolder(t, theirs, group))
	}

	createDeployment(t, ours, group, "anvil")
	waitHandled(t, ours, group, "anvil", "first")
	waitHandled(t, theirs, group, "gizmo", "other")
	checkState(t, ours, group, "anvil")
	waitEvents(t, ours, group, "anvil", "first")

	// There after the managers, to be in what they watch. The objects of the
	// tenant itself show that the events before them have arrived.
	createSecret(t, theirs, group, "default", "gizmo-late-"+group)
	createDeployment(t, theirs, group, "gizmo-late")
	createSecret(t, ours, group, group, "anvil")
	createSecret(t, ours, group, "default", "anvil-late-"+group)
	waitSecrets(t, ours, group, "anvil", "default/anvil-late-"+group+" "+group+"/anvil")
	waitSecrets(t, theirs, group, "gizmo", "default/gizmo-late-"+group+" "+group+"/gizmo")
	waitHandled(t, theirs, group, "gizmo-late", "other")
	checkRecreated(t, ours, group, "anvil")

	if second.elected() {
		t.Error("two managers lead in one tenant")
	}
	first.checkConfined(t, "gizmo")
	if err := first.stop(); err != nil {
		t.Errorf("the first manager: %v", err)
	}
	second.mustBeElected(t)
	if now := leaseHolder(t, ours, group); now == "" || now == leader {
		t.Errorf("the second manager leads, and the lease is held by %q", now)
	}
	createDeployment(t, ours, group, "anvil-again")
	waitHandled(t, ours, group, "anvil-again", "second")
	waitHandled(t, ours, group, "anvil", "second")
	checkCollected(t, ours, group, "anvil")
	second.checkConfined(t, "gizmo")
	other.checkConfined(t, "anvil")
	for _, o := range []*operator{second, other} {
		o.wire.checkEncodings(t, contentType)
		if err := o.stop(); err != nil {
			t.Errorf("the manager %s: %v", o.reconciler.name, err)
		}
	}
	first.wire.checkEncodings(t, contentType)
}

func createDeployment(t *testing.T, kube kubernetes.Interface, group, name string) {
	t.Helper()
	app := map[string]string{"app": name}
	none := int32(0)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{watchedLabel: group}},
		Spec: appsv1.DeploymentSpec{
			Replicas: &none,
			Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "main", Image: "docker.io/a4s/none:1"}},
				},
			},
		},
	}
	if _, err := kube.AppsV1().Deployments(group).Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func createSecret(t *testing.T, kube kubernetes.Interface, group, namespace, name string) {
	t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{watchedLabel: group}}}
	if _, err := kube.CoreV1().Secrets(namespace).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func leaseHolder(t *testing.T, kube kubernetes.Interface, name string) string {
	t.Helper()
	lease, err := kube.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// waitHandled waits for the annotation and the condition.
func waitHandled(t *testing.T, kube kubernetes.Interface, namespace, name, by string) {
	t.Helper()
	eventually(t, name+" to be handled by "+by, func(ctx context.Context) error {
		d, err := kube.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		handled := func(c appsv1.DeploymentCondition) bool { return c.Type == handledCondition }
		if d.Annotations[handledBy] != by || !slices.ContainsFunc(d.Status.Conditions, handled) {
			return fmt.Errorf("handled by %q, conditions %v", d.Annotations[handledBy], d.Status.Conditions)
		}
		return nil
	})
}

func stateOf(ctx context.Context, kube kubernetes.Interface, namespace, name string) (*corev1.ConfigMap, error) {
	return kube.CoreV1().ConfigMaps(namespace).Get(ctx, name+"-state", metav1.GetOptions{})
}

// checkState looks at who owns the ConfigMap.
func checkState(t *testing.T, kube kubernetes.Interface, namespace, name string) {
	t.Helper()
	d, err := kube.AppsV1().Deployments(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	state, err := stateOf(t.Context(), kube, namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	if owner := metav1.GetControllerOf(state); owner == nil || owner.Kind != "Deployment" || owner.Name != name ||
		owner.UID != d.UID {
		t.Errorf("the state of %s is owned by %v", name, state.OwnerReferences)
	}
}

// waitSecrets waits until the state names the Secrets.
func waitSecrets(t *testing.T, kube kubernetes.Interface, namespace, name, want string) {
	t.Helper()
	eventually(t, "the Secrets in the state of "+name, func(ctx context.Context) error {
		state, err := stateOf(ctx, kube, namespace, name)
		if err != nil {
			return err
		}
		if got := state.Data["secrets"]; got != want {
			return fmt.Errorf("they are %q, not %q", got, want)
		}
		return nil
	})
}

// checkRecreated deletes the ConfigMap, which its watch is to notice.
func checkRecreated(t *testing.T, kube kubernetes.Interface, namespace, name string) {
	t.Helper()
	before, err := stateOf(t.Context(), kube, namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	if err := kube.CoreV1().ConfigMaps(namespace).
		Delete(t.Context(), before.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the state of "+name+" to be made again", func(ctx context.Context) error {
		after, err := stateOf(ctx, kube, namespace, name)
		if err == nil && after.UID == before.UID {
			err = errors.New("it is the one that was deleted")
		}
		return err
	})
}

// checkCollected deletes the Deployment; the garbage collector is to follow
// the reference of the ConfigMap.
func checkCollected(t *testing.T, kube kubernetes.Interface, namespace, name string) {
	t.Helper()
	state, err := stateOf(t.Context(), kube, namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	background := metav1.DeletePropagationBackground
	if err := kube.AppsV1().Deployments(namespace).
		Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the state of "+name+" to be collected", func(ctx context.Context) error {
		left, err := stateOf(ctx, kube, namespace, name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("it has the UID %s, it had %s", left.UID, state.UID)
		}
		return err
	})
}

// waitEvents waits for what the reconciler and the leader election recorded, by
// the new API and the old one.
func waitEvents(t *testing.T, kube kubernetes.Interface, group, name, by string) {
	t.Helper()
	eventually(t, "the event about "+name, func(ctx context.Context) error {
		list, err := kube.EventsV1().Events(group).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		note := fmt.Sprintf("%s/%s handled by %s", group, name, by)
		found := func(e eventsv1.Event) bool {
			return e.Reason == "Handled" && e.Namespace == group && e.Note == note &&
				e.Regarding.Kind == "Deployment" && e.Regarding.Namespace == group && e.Regarding.Name == name
		}
		if !slices.ContainsFunc(list.Items, found) {
			return fmt.Errorf("not among %v", list.Items)
		}
		return nil
	})
	eventually(t, "the event about the lease", func(ctx context.Context) error {
		list, err := kube.CoreV1().Events(metav1.NamespaceSystem).List(ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.name=" + group})
		if err != nil {
			return err
		}
		found := func(e corev1.Event) bool {
			return e.Reason == "LeaderElection" && e.InvolvedObject.Kind == "Lease" &&
				e.InvolvedObject.Namespace == metav1.NamespaceSystem
		}
		if !slices.ContainsFunc(list.Items, found) {
			return fmt.Errorf("not among %v", list.Items)
		}
		return nil
	})
}

// checkConfined looks for objects of the other tenant, whose names hold the
// canary, in what the manager was asked for, in its caches and on its wire.
func (o *operator) checkConfined(t *testing.T, canary string) {
	t.Helper()
	foreign := func(name string) bool { return strings.Contains(name, canary) || notNative(name) }
	if asked := o.reconciler.asked.list(); slices.ContainsFunc(asked, foreign) {
		t.Errorf("manager %s was asked to handle %q", o.reconciler.name, asked)
	}
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &corev1.ConfigMapList{}, secrets} {
		if err := o.GetCache().List(t.Context(), list); err != nil {
			t.Errorf("manager %s: %T: %v", o.reconciler.name, list, err)
			continue
		}
		var keys []types.NamespacedName
		switch list := list.(type) {
		case *appsv1.DeploymentList:
			for i := range list.Items {
				keys = append(keys, client.ObjectKeyFromObject(&list.Items[i]))
			}
		case *corev1.ConfigMapList:
			for i := range list.Items {
				keys = append(keys, client.ObjectKeyFromObject(&list.Items[i]))
			}
		case *metav1.PartialObjectMetadataList:
			for i := range list.Items {
				keys = append(keys, client.ObjectKeyFromObject(&list.Items[i]))
			}
		}
		if len(keys) == 0 {
			t.Errorf("manager %s: its cache of %T is empty", o.reconciler.name, list)
		}
		for _, key := range keys {
			if notNative(key.Namespace) || strings.Contains(key.Name, canary) {
				t.Errorf("manager %s has %s in its cache of %T", o.reconciler.name, key, list)
			}
		}
	}
	if leaked := o.wire.leaked.list(); len(leaked) > 0 {
		t.Errorf("manager %s was sent objects of the other tenant in answers to %q", o.reconciler.name, leaked)
	}
}

// checkEncodings makes sure that the encoding in question was in use.
func (w *wire) checkEncodings(t *testing.T, contentType string) {
	t.Helper()
	got := w.encodings.list()
	want := []string{"configmaps " + contentType, "deployments " + contentType, "leases " + contentType,
		"secrets " + contentType}
	if !slices.Equal(got, want) {
		t.Errorf("encodings on the wire: %q, want %q", got, want)
	}
}
