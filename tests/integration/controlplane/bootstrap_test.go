package controlplane_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/internal/bootstrapapi"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

// nodeConfig is the credential of a node that joins as a real agent does.
func (p *plane) nodeConfig(t *testing.T, name, ip string) *rest.Config {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	dir := t.TempDir()
	got, err := join.Join(ctx, join.Options{
		ServerURL: p.URL, Token: p.Token, NodeName: name, NodeIPs: []string{ip}, Dir: dir,
		NodePasswordFile: filepath.Join(dir, "password"),
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := &rest.Config{Host: p.URL, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: got.ServerCA, CertFile: got.ClientCert, KeyFile: got.ClientKey}}
	if _, err := clientFor(t, cfg).CoreV1().Nodes().Create(ctx,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func clientFor(t *testing.T, cfg *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// bootstrapPod is what node offers.
func bootstrapPod(node, name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: bootstrapapi.PodName(name, node), Namespace: "kube-system", Labels: map[string]string{"app": name},
			Annotations: map[string]string{bootstrapapi.SourceAnnotation: bootstrapapi.Source,
				bootstrapapi.UIDAnnotation: string(uuid.NewUUID())},
		},
		Spec: corev1.PodSpec{
			NodeName: node, HostNetwork: true, Containers: []corev1.Container{{Name: "c", Image: "i"}},
			Volumes: []corev1.Volume{{Name: "data",
				VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}}},
		},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

// TestBootstrapPods: nodes persist the pods that they ran without a server,
// and nobody persists anything else so.
func TestBootstrapPods(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, planes.Settings(t.TempDir()))
	planes.AwaitAccount(t, p.Admin, "default")
	planes.CreateTenant(t, p.Admin, "t1")
	user, organizations := planes.AdminOf("t1")
	tenant := p.User(t, user, organizations, nil)
	planes.AwaitAccount(t, tenant, "default")
	n1, n2 := p.nodeConfig(t, "n1", "192.0.2.10"), p.nodeConfig(t, "n2", "192.0.2.11")

	t.Run("the UID is kept", func(t *testing.T) { p.testUIDIsKept(t, clientFor(t, n1)) })
	t.Run("everything else is refused", func(t *testing.T) { p.testRefusedPods(t, n1, n2, tenant) })
	t.Run("other admission is not left out", func(t *testing.T) {
		p.testAdmissionOfBootstrapPods(t, clientFor(t, n1))
	})
	t.Run("controllers adopt and replace it", func(t *testing.T) { p.testAdoption(t, clientFor(t, n1)) })
}

func (p *plane) testUIDIsKept(t *testing.T, node kubernetes.Interface) {
	ctx := t.Context()
	for _, namespace := range []string{"kube-system", "default"} {
		pod := bootstrapPod("n1", "kept", func(pod *corev1.Pod) { pod.Namespace = namespace })
		want := types.UID(pod.Annotations[bootstrapapi.UIDAnnotation])
		created, err := node.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		stored, err := p.client.CoreV1().Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for what, got := range map[string]*corev1.Pod{"answered": created, "stored": stored} {
			if got.UID != want {
				t.Errorf("%s with UID %s, want %s", what, got.UID, want)
			}
			if _, left := got.Annotations[bootstrapapi.UIDAnnotation]; left || !bootstrapapi.IsBootstrap(got) {
				t.Errorf("%s with the annotations %v", what, got.Annotations)
			}
			// What runs already must not get another container, mount or account.
			if len(got.Spec.Volumes) != 1 || len(got.Spec.Containers[0].VolumeMounts) != 0 ||
				got.Spec.ServiceAccountName != "" {
				t.Errorf("%s with %+v", what, got.Spec)
			}
		}
		if _, err := node.CoreV1().Pods(namespace).Create(ctx, pod,
			metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			t.Errorf("offered again: %v", err)
		}
		// A kubelet ends a pod like this. Admission looks for it in a cache.
		options := metav1.DeleteOptions{GracePeriodSeconds: new(int64),
			Preconditions: metav1.NewUIDPreconditions(string(want))}
		eventually(t, "the node to delete it", func(ctx context.Context) (bool, error) {
			err := node.CoreV1().Pods(namespace).Delete(ctx, pod.Name, options)
			return err == nil, ignoreNotFound(err)
		})
	}
}

func (p *plane) testRefusedPods(t *testing.T, n1, n2, tenant *rest.Config) {
	ctx := t.Context()
	admin := p.client
	as := func(name string, groups ...string) *rest.Config {
		cfg := rest.CopyConfig(p.Admin)
		cfg.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
		return cfg
	}
	throughPrefix := rest.CopyConfig(n1)
	throughPrefix.Host += "/tenants/t1"
	taken, err := clientFor(t, tenant).CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "theirs"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	inDefault := func(pod *corev1.Pod) { pod.Namespace = "default" }
	plain := func(pod *corev1.Pod) { pod.Spec.HostNetwork, pod.Spec.Volumes, pod.Spec.NodeName = false, nil, "" }
	uid := func(value string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Annotations[bootstrapapi.UIDAnnotation] = value }
	}
	for what, tc := range map[string]struct {
		by     *rest.Config
		change []func(*corev1.Pod)
	}{
		"another node": {n2, nil},
		"a node for another": {n1,
			[]func(*corev1.Pod){func(pod *corev1.Pod) { pod.Spec.NodeName = "n2" }}},
		"a node in a tenant's space": {throughPrefix, []func(*corev1.Pod){inDefault}},
		"a node in a tenant's namespace": {n1,
			[]func(*corev1.Pod){func(pod *corev1.Pod) { pod.Namespace = "default.t1" }}},
		"a node with a service account": {n1,
			[]func(*corev1.Pod){inDefault, func(pod *corev1.Pod) { pod.Spec.ServiceAccountName = "default" }}},
		"a node with a Secret": {n1, []func(*corev1.Pod){func(pod *corev1.Pod) {
			pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "x"}}
		}}},
		"a node with an owner": {n1, []func(*corev1.Pod){func(pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "x"}}
		}}},
		"a node without the mark": {n1,
			[]func(*corev1.Pod){func(pod *corev1.Pod) { delete(pod.Annotations, bootstrapapi.SourceAnnotation) }}},
		"a node without the UID": {n1,
			[]func(*corev1.Pod){func(pod *corev1.Pod) { delete(pod.Annotations, bootstrapapi.UIDAnnotation) }}},
		"a node with no UUID":                         {n1, []func(*corev1.Pod){uid("../../../x")}},
		"a node with the UID of a tenant's pod":       {n1, []func(*corev1.Pod){uid(string(taken.UID))}},
		"the administrator":                           {p.Admin, []func(*corev1.Pod){inDefault, plain}},
		"the administrator for a node":                {as("system:node:n1", "system:nodes"), nil},
		"the administrator for a node and the master": {as("system:node:n1", "system:nodes", "system:masters"), nil},
		"a service account": {as("system:serviceaccount:default:default", "system:masters"),
			[]func(*corev1.Pod){inDefault, plain}},
		"a tenant": {tenant, []func(*corev1.Pod){inDefault, plain}},
		"a tenant called like a node": {p.User(t, "system:node:n1", []string{"tenant:t1"},
			[]string{"system:nodes", "system:masters"}), []func(*corev1.Pod){inDefault, plain}},
		"a user called like a node": {p.User(t, "system:node:n1", []string{"system:masters"}, nil),
			nil},
	} {
		pod := bootstrapPod("n1", "refused", tc.change...)
		for _, options := range []metav1.CreateOptions{{}, {DryRun: []string{metav1.DryRunAll}}} {
			created, err := clientFor(t, tc.by).CoreV1().Pods(pod.Namespace).Create(ctx, pod, options)
			if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
				t.Errorf("%s, dry run %v: %+v, %v", what, options.DryRun, created, err)
			}
		}
	}
	for _, namespace := range []string{"kube-system", "default", "default.t1"} {
		list, err := admin.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=refused"})
		if err != nil || len(list.Items) > 0 {
			t.Errorf("%d refused pods are stored in %s, %v", len(list.Items), namespace, err)
		}
	}

	t.Run("by server-side apply", func(t *testing.T) {
		body := []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"applied","annotations":{"kubernetes.io/` +
			`config.source":"kubelet-api","a4s.io/bootstrap-uid":"6f0b1c9e-3d1c-4b1e-9a52-0d5f2f6f7a01"}},` +
			`"spec":{"containers":[{"name":"c","image":"i"}]}}`)
		for who, cfg := range map[string]*rest.Config{"administrator": p.Admin, "node": n1, "tenant": tenant,
			"another's": as("system:node:n1", "system:nodes", "system:masters")} {
			if got, err := clientFor(t, cfg).CoreV1().Pods("default").Patch(ctx, "applied", types.ApplyPatchType, body,
				metav1.PatchOptions{FieldManager: "x"}); !apierrors.IsForbidden(err) {
				t.Errorf("%s: %+v, %v", who, got, err)
			}
		}
	})
	t.Run("by what the object says itself", func(t *testing.T) {
		const chosen = "6f0b1c9e-3d1c-4b1e-9a52-0d5f2f6f7a01"
		pod := bootstrapPod("n1", "marked", inDefault, plain, func(pod *corev1.Pod) {
			pod.UID = chosen
			delete(pod.Annotations, bootstrapapi.UIDAnnotation)
		})
		created, err := admin.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if created.UID == chosen || bootstrapapi.IsBootstrap(created) {
			t.Errorf("UID %s, annotations %v", created.UID, created.Annotations)
		}
		patched, err := admin.CoreV1().Pods("default").Patch(ctx, created.Name, types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"kubernetes.io/config.source":"kubelet-api","a4s.io/bootstrap-uid":"`+
				chosen+`"}}}`), metav1.PatchOptions{})
		if err != nil || patched.UID != created.UID {
			t.Errorf("after an update the UID is %s, not %s: %v", patched.UID, created.UID, err)
		}
		if _, err := admin.CoreV1().Pods("default").Patch(ctx, created.Name, types.MergePatchType,
			[]byte(`{"metadata":{"uid":"`+chosen+`"}}`), metav1.PatchOptions{}); !apierrors.IsConflict(err) &&
			!apierrors.IsInvalid(err) {
			t.Errorf("an update of the UID: %v", err)
		}
	})
}

// testAdmissionOfBootstrapPods: quota and Pod Security see them as any pod.
func (p *plane) testAdmissionOfBootstrapPods(t *testing.T, node kubernetes.Interface) {
	ctx := t.Context()
	for name, labels := range map[string]map[string]string{
		"restricted": {"pod-security.kubernetes.io/enforce": "restricted"},
		"full":       nil,
	} {
		if _, err := p.client.CoreV1().Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
	quota.Spec.Hard[corev1.ResourcePods] = resource.MustParse("0")
	if _, err := p.client.CoreV1().ResourceQuotas("full").Create(ctx, quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the quota to hold", func(ctx context.Context) (bool, error) {
		pod := bootstrapPod("n1", "limited", func(pod *corev1.Pod) { pod.Namespace = "full" })
		_, err := node.CoreV1().Pods("full").Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "exceeded quota"), nil
	})
	for namespace, why := range map[string]string{"restricted": "violates PodSecurity", "full": "exceeded quota",
		"missing": "not found"} {
		pod := bootstrapPod("n1", "limited", func(pod *corev1.Pod) { pod.Namespace = namespace })
		if _, err := node.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err == nil ||
			!strings.Contains(err.Error(), why) {
			t.Errorf("in namespace %s: %v, want %q", namespace, err, why)
		}
	}
}

// testAdoption: a ReplicaSet adopts the pod, and a Deployment the ReplicaSet;
// the pod stays as it is until somebody deletes it.
func (p *plane) testAdoption(t *testing.T, node kubernetes.Interface) {
	ctx := t.Context()
	pod := bootstrapPod("n1", "plane")
	want := types.UID(pod.Annotations[bootstrapapi.UIDAnnotation])
	if _, err := node.CoreV1().Pods("kube-system").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	one := int32(1)
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "plane"}}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels},
		Spec: corev1.PodSpec{NodeName: "n1", HostNetwork: true, Containers: pod.Spec.Containers,
			Volumes: pod.Spec.Volumes},
	}
	set, err := p.client.AppsV1().ReplicaSets("kube-system").Create(ctx, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "plane", Labels: selector.MatchLabels},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &one, Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owner := func(o metav1.Object) types.UID {
		if c := metav1.GetControllerOf(o); c != nil {
			return c.UID
		}
		return ""
	}
	eventually(t, "the ReplicaSet to adopt the pod", func(ctx context.Context) (bool, error) {
		got, err := p.client.CoreV1().Pods("kube-system").Get(ctx, pod.Name, metav1.GetOptions{})
		return err == nil && got.UID == want && owner(got) == set.UID, err
	})
	deployment, err := p.client.AppsV1().Deployments("kube-system").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "plane"},
		Spec: appsv1.DeploymentSpec{Replicas: &one, Selector: selector, Template: template,
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Deployment to adopt the ReplicaSet", func(ctx context.Context) (bool, error) {
		got, err := p.client.AppsV1().ReplicaSets("kube-system").Get(ctx, set.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		d, err := p.client.AppsV1().Deployments("kube-system").Get(ctx, deployment.Name, metav1.GetOptions{})
		return err == nil && owner(got) == deployment.UID && d.Status.ObservedGeneration == d.Generation &&
			d.Status.Replicas == 1, err
	})
	pods, err := p.client.CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{LabelSelector: "app=plane"})
	if err != nil || len(pods.Items) != 1 || pods.Items[0].UID != want || pods.Items[0].DeletionTimestamp != nil {
		t.Fatalf("after the adoption there are %+v, %v", pods.Items, err)
	}
	if err := retry.OnError(retry.DefaultBackoff, apierrors.IsConflict, func() error {
		return p.client.CoreV1().Pods("kube-system").Delete(ctx, pod.Name,
			metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another pod instead", func(ctx context.Context) (bool, error) {
		pods, err := p.client.CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{LabelSelector: "app=plane"})
		return err == nil && len(pods.Items) == 1 && pods.Items[0].UID != want && owner(&pods.Items[0]) == set.UID &&
			!bootstrapapi.IsBootstrap(&pods.Items[0]), err
	})
}
