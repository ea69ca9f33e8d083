package spaces_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// testCustomOwners: the garbage collector follows owners that are custom or
// have custom dependents, in a namespace and without.
func testCustomOwners(t *testing.T, _ *plane, s *space, namespace, group string) {
	ctx := t.Context()
	foos := s.define(t, definition(group))
	bars := s.define(t, definition(group, named("bars", "Bar"), clusterWide))
	maps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	roles := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	kind := map[schema.GroupVersionResource]string{foos: "Foo", bars: "Bar", maps: "ConfigMap", roles: "ClusterRole"}
	where := map[schema.GroupVersionResource]string{foos: namespace, maps: namespace}
	blocks := true
	makes := func(
		gvr schema.GroupVersionResource, name string, owner *unstructured.Unstructured,
	) *unstructured.Unstructured {
		t.Helper()
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": gvr.GroupVersion().String(),
			"kind": kind[gvr], "metadata": map[string]any{"name": name}}}
		if owner != nil {
			object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: owner.GetAPIVersion(),
				Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), BlockOwnerDeletion: &blocks}})
		}
		made := s.makes(t, gvr, where[gvr], object)
		if owner != nil && made.GetOwnerReferences()[0].Name != owner.GetName() {
			t.Errorf("%s is owned by %v", name, made.GetOwnerReferences())
		}
		return made
	}
	type object struct {
		gvr  schema.GroupVersionResource
		name string
	}
	collected := func(o object) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s %s to be collected", o.gvr.Resource, o.name),
			func(ctx context.Context) (bool, error) {
				_, err := s.in(o.gvr, where[o.gvr]).Get(ctx, o.name, metav1.GetOptions{})
				return apierrors.IsNotFound(err), nil
			})
	}
	// What is owned by what never was goes, and shows that the collector knows
	// the CRDs: before, it would not know whom to orphan.
	nobody := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "PersistentVolume"}}
	nobody.SetName("nobody")
	nobody.SetUID("00000000-0000-0000-0000-000000000000")
	known := func(gvr schema.GroupVersionResource, name string) {
		t.Helper()
		collected(object{gvr, makes(gvr, name, nobody).GetName()})
	}
	for _, gvr := range []schema.GroupVersionResource{foos, bars} {
		known(gvr, "of-nobody")
	}
	var goes, stays []object
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground,
		metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan} {
		for i, c := range []struct {
			owner      schema.GroupVersionResource
			dependents []schema.GroupVersionResource
		}{
			{foos, []schema.GroupVersionResource{foos, maps}},
			{maps, []schema.GroupVersionResource{foos}},
			{bars, []schema.GroupVersionResource{bars, foos, maps, roles}},
			{roles, []schema.GroupVersionResource{bars, foos}},
		} {
			name := fmt.Sprintf("%s-%s-%d", namespace, strings.ToLower(string(policy)), i)
			owner := makes(c.owner, name+"-owner", nil)
			for _, gvr := range c.dependents {
				made := object{gvr, makes(gvr, name, owner).GetName()}
				if policy == metav1.DeletePropagationOrphan {
					stays = append(stays, made)
				} else {
					goes = append(goes, made)
				}
			}
			if policy == metav1.DeletePropagationOrphan {
				// The collector orphans what it has seen, and it sees the objects of a
				// resource in their order.
				for _, gvr := range c.dependents {
					known(gvr, name+"-seen")
				}
			}
			// This one's owner is never deleted.
			makes(foos, name+"-kept", makes(c.owner, name+"-keeper", nil))
			stays = append(stays, object{foos, name + "-kept"})
			goes = append(goes, object{c.owner, owner.GetName()})
			defer func() {
				if err := s.in(c.owner, where[c.owner]).
					Delete(ctx, name+"-keeper", metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			}()
			if err := s.in(c.owner, where[c.owner]).
				Delete(ctx, owner.GetName(), metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, o := range goes {
		collected(o)
	}
	for _, o := range stays {
		if _, err := s.in(o.gvr, where[o.gvr]).Get(ctx, o.name, metav1.GetOptions{}); err != nil {
			t.Errorf("%s %s was collected: %v", o.gvr.Resource, o.name, err)
		}
	}
}

// testCustomNamespace: a namespace goes with its custom resources, and only
// with them.
func testCustomNamespace(t *testing.T, p *plane, s *space, namespace, group string) {
	ctx := t.Context()
	gvr := s.define(t, definition(group))
	s.makes(t, gvr, namespace, foo(gvr, "one", nil))
	s.makes(t, gvr, "default", foo(gvr, "one", nil))
	held := foo(gvr, "held", nil)
	held.SetFinalizers([]string{"example.com/hold"})
	s.makes(t, gvr, namespace, held)
	if err := s.client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace to say what it waits for", func(ctx context.Context) (bool, error) {
		ns, err := s.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		said := ""
		for _, c := range ns.Status.Conditions {
			s.native(t, string(c.Type), c.Message)
			said += c.Message
		}
		return strings.Contains(said, "foos."+group+" has 1 resource instances"), nil
	})
	if _, err := s.in(gvr, namespace).Patch(ctx, "held", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace to go", func(ctx context.Context) (bool, error) {
		_, err := s.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if left := p.keys(t, "/registry/"+group+"/foos/"+s.name+"/"+namespace+"/"); len(left) > 0 {
		t.Errorf("left in etcd: %v", left)
	}
	if _, err := s.in(gvr, "default").Get(ctx, "one", metav1.GetOptions{}); err != nil {
		t.Errorf("in another namespace: %v", err)
	}
}

func testCustomQuota(t *testing.T, _ *plane, s *space, namespace, group string) {
	ctx := t.Context()
	gvr := s.define(t, definition(group))
	counted := corev1.ResourceName("count/foos." + group)
	if _, err := s.client.CoreV1().ResourceQuotas(namespace).Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{counted: quantity("0")}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	used := func(want string) {
		t.Helper()
		changes := 0
		eventually(t, "the quota to be counted: "+want, func(ctx context.Context) (bool, error) {
			q, err := s.client.CoreV1().ResourceQuotas(namespace).Get(ctx, "few", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			n, ok := q.Status.Used[counted]
			if !ok {
				// The controller looks at CRDs now and then, and again
				// at what it could not count only when that changes.
				changes++
				change := fmt.Sprintf(`{"spec":{"hard":{"count/configmaps":"%d"}}}`, 10+changes)
				_, err = s.client.CoreV1().ResourceQuotas(namespace).Patch(ctx, "few", types.MergePatchType,
					[]byte(change), metav1.PatchOptions{})
			}
			return ok && n.String() == want, err
		})
	}
	used("0")
	// Admission knows of the quota a moment later; until then all would pass.
	allowed := func(name string, options metav1.CreateOptions) (bool, error) {
		_, err := s.in(gvr, namespace).Create(ctx, foo(gvr, name, nil), options)
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil, err
	}
	eventually(t, "the quota to hold", func(context.Context) (bool, error) {
		passes, err := allowed("none", metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return !passes, err
	})
	more := fmt.Sprintf(`{"spec":{"hard":{%q:"2"}}}`, counted)
	if _, err := s.client.CoreV1().ResourceQuotas(namespace).Patch(ctx, "few", types.MergePatchType, []byte(more),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the quota to allow more", func(context.Context) (bool, error) {
		return allowed("one", metav1.CreateOptions{})
	})
	s.makes(t, gvr, namespace, foo(gvr, "two", nil))
	_, err := s.in(gvr, namespace).Create(ctx, foo(gvr, "three", nil), metav1.CreateOptions{})
	if want := fmt.Sprintf(`foos.%[1]s "three" is forbidden: exceeded quota: few, requested: %[2]s=1, used: `+
		`%[2]s=2, limited: %[2]s=2`, group, counted); !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("over the quota: %v", err)
	}
	used("2")
	s.makes(t, gvr, "default", foo(gvr, "three", nil))
}

// testCustomScaling: an autoscaler holds a custom resource to its maximum.
func testCustomScaling(t *testing.T, _ *plane, s *space, namespace, group string) {
	gvr := s.define(t, definition(group, withScale))
	s.makes(t, gvr, namespace, foo(gvr, "web", map[string]any{"replicas": int64(3)}))
	autoscalers := s.client.AutoscalingV2().HorizontalPodAutoscalers(namespace)
	if _, err := autoscalers.Create(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: group + "/v1", Kind: "Foo",
				Name: "web"}, MinReplicas: new(int32(1)), MaxReplicas: 2,
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	said := ""
	defer func() {
		if t.Failed() {
			t.Logf("autoscaler: %s", said)
		}
	}()
	eventually(t, "the autoscaler to hold to its maximum", func(ctx context.Context) (bool, error) {
		h, err := autoscalers.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		said = fmt.Sprint(h.Status.Conditions)
		s.native(t, "autoscaler", said)
		web, err := s.in(gvr, namespace).Get(ctx, "web", metav1.GetOptions{})
		return err == nil && field(web, "spec", "replicas") == "2", err
	})
}

// testCustomBudget: a disruption budget counts the pods that a custom resource
// is to have.
func testCustomBudget(t *testing.T, p *plane, s *space, namespace, group string) {
	ctx := t.Context()
	gvr := s.define(t, definition(group, withScale))
	owner := s.makes(t, gvr, namespace, foo(gvr, "web", map[string]any{"replicas": int64(4)}))
	for i, name := range []string{"one", "two"} {
		pod := simplePod(name)
		pod.Labels["app"] = "web"
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())}
		if _, err := s.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		p.runs(t, s, namespace, name, fmt.Sprintf("10.42.2.%d", i+1))
	}
	half := intstr.FromString("50%")
	if _, err := s.client.PolicyV1().PodDisruptionBudgets(namespace).Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "half"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &half,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var last policyv1.PodDisruptionBudgetStatus
	defer func() {
		if t.Failed() {
			t.Logf("budget: %+v", last)
		}
	}()
	eventually(t, "the budget to be counted", func(ctx context.Context) (bool, error) {
		b, err := s.client.PolicyV1().PodDisruptionBudgets(namespace).Get(ctx, "half", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		last = b.Status
		for _, c := range last.Conditions {
			s.native(t, "budget", c.Message)
			if c.Reason == policyv1.SyncFailedReason {
				// The controller looks at CRDs now and then, and again
				// at a budget only when something about it changes.
				change := fmt.Sprintf(`{"metadata":{"annotations":{"at":"%s"}}}`, time.Now())
				_, err = s.client.PolicyV1().PodDisruptionBudgets(namespace).Patch(ctx, "half", types.MergePatchType,
					[]byte(change), metav1.PatchOptions{})
			}
		}
		return last.ExpectedPods == 4 && last.DesiredHealthy == 2 && last.CurrentHealthy == 2, err
	})
}

// testCustomRights: roles are about custom resources as about others.
func testCustomRights(t *testing.T, p *plane, s *space, namespace, group string) {
	ctx := t.Context()
	gvr := s.define(t, definition(group))
	s.makes(t, gvr, namespace, foo(gvr, "one", nil))
	if _, err := s.client.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list"},
			APIGroups: []string{group}, Resources: []string{"foos"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	account := p.account(t, s, namespace, "default", nil)
	if _, err := account.in(gvr, namespace).List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("without a role: %v", err)
	}
	if _, err := s.client.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "default", Namespace: namespace}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the role to be in force", func(ctx context.Context) (bool, error) {
		list, err := account.in(gvr, namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 1, nil
	})
	_, err := account.in(gvr, namespace).Create(ctx, foo(gvr, "two", nil), metav1.CreateOptions{})
	if want := fmt.Sprintf(`foos.%[1]s is forbidden: User "system:serviceaccount:%[2]s:default" cannot create `+
		`resource "foos" in API group "%[1]s" in the namespace "%[2]s"`, group,
		namespace); !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("making one: %v", err)
	}
	if _, err := account.in(gvr, "").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("in all namespaces: %v", err)
	}
	if _, err := account.definitions(t).List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("definitions: %v", err)
	}
}

// testCustomsOfDeletedTenant: nothing of a tenant is left, whatever they defined,
// and the other has everything.
func testCustomsOfDeletedTenant(t *testing.T, p *plane, b *space) {
	c := p.tenant(t, "c")
	group := "gone.example.com"
	kept := b.define(t, definition(group))
	b.makes(t, kept, "default", foo(kept, "one", nil))
	foos, bars := c.define(t, definition(group)), c.define(t, definition(group, named("bars", "Bar"), clusterWide))
	c.makes(t, foos, "default", foo(foos, "one", nil))
	c.makes(t, bars, "", foo(bars, "one", nil))
	if keys := p.keys(t, "/c/"); !strings.Contains(strings.Join(keys, " "), "/registry/"+group+"/bars/c/one") {
		t.Errorf("keys: %v", keys)
	}
	testDeletion(t, p, c)
	if _, err := b.in(kept, "default").Get(t.Context(), "one", metav1.GetOptions{}); err != nil {
		t.Errorf("of another tenant: %v", err)
	}
}
