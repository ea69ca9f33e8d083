package spaces_test

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func testServices(t *testing.T, p *plane, s *space, namespace string) {
	ctx := t.Context()
	for _, svc := range []*corev1.Service{
		{ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"},
				Ports: []corev1.ServicePort{{Port: 80}}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "headless"}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone,
			Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}}},
	} {
		made, err := s.client.CoreV1().Services(namespace).Create(ctx, svc, metav1.CreateOptions{})
		if err != nil || made.Namespace != namespace ||
			made.Name == "web" && !strings.HasPrefix(made.Spec.ClusterIP, "10.43.") {
			t.Fatalf("service: %+v, %v", made, err)
		}
	}
	pod := simplePod("web")
	pod.Spec.NodeName = "machine" // endpoints have one
	if _, err := s.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ip := map[string]string{"a": "10.42.2.1", "b": "10.42.2.2"}[s.name]
	p.runs(t, s, namespace, "web", ip)
	for _, name := range []string{"web", "headless"} {
		eventually(t, "the endpoints of "+name, func(ctx context.Context) (bool, error) {
			slices, err := s.client.DiscoveryV1().EndpointSlices(namespace).List(ctx,
				metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name})
			if err != nil || len(slices.Items) != 1 || len(slices.Items[0].Endpoints) != 1 {
				return false, err
			}
			e := slices.Items[0].Endpoints[0]
			if e.Addresses[0] != ip || e.TargetRef == nil || e.TargetRef.Namespace != namespace ||
				e.TargetRef.Name != "web" || slices.Items[0].Namespace != namespace {
				t.Errorf("endpoint of %s: %+v of %+v", name, e, e.TargetRef)
			}
			return true, nil
		})
	}
}

func testNetworking(t *testing.T, p *plane, s *space, namespace string) {
	ctx := t.Context()
	peers := []networkingv1.NetworkPolicyPeer{
		{NamespaceSelector: &metav1.LabelSelector{}},
		{NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"kubernetes.io/metadata.name": "default"},
		}},
		{PodSelector: &metav1.LabelSelector{}},
	}
	policies := s.client.NetworkingV1().NetworkPolicies(namespace)
	if _, err := policies.Create(ctx, &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "in"},
		Spec:       networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{From: peers}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	policy, err := policies.Get(ctx, "in", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	from := policy.Spec.Ingress[0].From
	if len(from[0].NamespaceSelector.MatchLabels) != 0 || len(from[1].NamespaceSelector.MatchLabels) != 1 ||
		from[1].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "default" ||
		from[2].NamespaceSelector != nil {
		t.Errorf("as the tenant sees it: %+v", from)
	}
	stored, err := p.admin.NetworkingV1().NetworkPolicies(namespace+"."+s.name).Get(ctx, "in", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	from = stored.Spec.Ingress[0].From
	if from[0].NamespaceSelector.MatchLabels["a4s.io/tenant"] != s.name ||
		from[1].NamespaceSelector.MatchLabels["a4s.io/tenant"] != s.name ||
		from[1].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "default."+s.name ||
		from[2].NamespaceSelector != nil {
		t.Errorf("inside: %+v", from)
	}
	class, prefix := "web", networkingv1.PathTypePrefix
	ingress, err := s.client.NetworkingV1().Ingresses(namespace).Create(ctx, &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: networkingv1.IngressSpec{IngressClassName: &class,
			Rules: []networkingv1.IngressRule{{Host: "web.example.com",
				IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
					Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &prefix,
						Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web",
							Port: networkingv1.ServiceBackendPort{Number: 80}}}}},
				}}}}},
	}, metav1.CreateOptions{})
	if err != nil || ingress.Namespace != namespace {
		t.Errorf("ingress: %+v, %v", ingress, err)
	}
	if _, err := s.client.NetworkingV1().IngressClasses().Get(ctx, class, metav1.GetOptions{}); err != nil {
		t.Errorf("the class of the ingress: %v", err)
	}
}

func testScaling(t *testing.T, _ *plane, s *space, namespace string) {
	ctx := t.Context()
	deployments := s.client.AppsV1().Deployments(namespace)
	if _, err := deployments.Create(ctx, deployment("web"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	scale, err := deployments.GetScale(ctx, "web", metav1.GetOptions{})
	if err != nil || scale.Namespace != namespace || scale.Spec.Replicas != 1 {
		t.Fatalf("scale: %+v, %v", scale, err)
	}
	scale.Spec.Replicas, scale.ResourceVersion = 2, "" // the controller writes too
	if scale, err = deployments.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}); err != nil ||
		scale.Spec.Replicas != 2 || scale.Namespace != namespace {
		t.Errorf("updated scale: %+v, %v", scale, err)
	}
	if _, err := deployments.Patch(ctx, "web", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`),
		metav1.PatchOptions{}, "scale"); err != nil {
		t.Errorf("patching the scale: %v", err)
	}
	eventually(t, "three pods", func(ctx context.Context) (bool, error) {
		d, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		return err == nil && d.Status.Replicas == 3, err
	})
	// The controller can read the target, and says natively what it lacks.
	autoscalers := s.client.AutoscalingV2().HorizontalPodAutoscalers(namespace)
	low := int32(1)
	target := autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	if _, err := autoscalers.Create(ctx, &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: target,
			MinReplicas: &low, MaxReplicas: 2},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if old, err := s.client.AutoscalingV1().HorizontalPodAutoscalers(namespace).
		Get(ctx, "web", metav1.GetOptions{}); err != nil ||
		old.Spec.ScaleTargetRef != (autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1",
			Kind: "Deployment", Name: "web"}) {
		t.Errorf("autoscaler: %+v, %v", old, err)
	}
	eventually(t, "the autoscaler to hold to its maximum", func(ctx context.Context) (bool, error) {
		h, err := autoscalers.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range h.Status.Conditions {
			s.native(t, "autoscaler", c.Message)
		}
		d, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		return err == nil && *d.Spec.Replicas == 2, err
	})
}

func testCronJobs(t *testing.T, _ *plane, s *space, namespace string) {
	ctx := t.Context()
	jobs := s.client.BatchV1().CronJobs(namespace)
	if _, err := jobs.Create(ctx, &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "tick"},
		Spec: batchv1.CronJobSpec{Schedule: "0 0 1 * *",
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
					Containers: []corev1.Container{{Name: "c", Image: "example.com/none"}}},
			}}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Its last time is long ago, so that the next is now.
	long := time.Now().AddDate(0, -1, -2).UTC().Format(time.RFC3339)
	if _, err := jobs.Patch(ctx, "tick", types.MergePatchType, []byte(`{"status":{"lastScheduleTime":"`+long+`"}}`),
		metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the job and its pod", func(ctx context.Context) (bool, error) {
		pods, err := s.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(pods.Items) == 0 {
			return false, err
		}
		owner := pods.Items[0].OwnerReferences[0]
		return owner.Kind == "Job" && strings.HasPrefix(owner.Name, "tick-"), nil
	})
	eventually(t, "the job to be among the active", func(ctx context.Context) (bool, error) {
		c, err := jobs.Get(ctx, "tick", metav1.GetOptions{})
		return err == nil && len(c.Status.Active) == 1 && c.Status.Active[0].Namespace == namespace, err
	})
}

func testStatefulSets(t *testing.T, _ *plane, s *space, namespace string) {
	ctx := t.Context()
	class, labels := "", map[string]string{"app": "db"}
	if _, err := s.client.AppsV1().StatefulSets(namespace).Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: "db", Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/none"}}}},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod},
					StorageClassName: &class, VolumeName: "db-disk",
					Resources: corev1.VolumeResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceStorage: quantity("1Gi")},
					},
				},
			}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	disk := netVolume("db-disk")
	disk.Spec.StorageClassName = ""
	disk.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	if _, err := s.client.CoreV1().PersistentVolumes().Create(ctx, disk, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod and its volume", func(ctx context.Context) (bool, error) {
		pods, err := s.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(pods.Items) != 1 || pods.Items[0].Name != "db-0" {
			return false, err
		}
		claim, err := s.client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, "data-db-0", metav1.GetOptions{})
		return err == nil && claim.Spec.VolumeName == "db-disk" && claim.Status.Phase == corev1.ClaimBound, err
	})
}

func testEvents(t *testing.T, _ *plane, s *space, namespace string) {
	ctx := t.Context()
	if _, err := s.client.AppsV1().Deployments(namespace).
		Create(ctx, deployment("web"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.claim(t, namespace, "data", "missing")
	seen := map[string]bool{}
	eventually(t, "the events of controllers and the scheduler", func(ctx context.Context) (bool, error) {
		events, err := s.client.CoreV1().Events("").List(ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.namespace=" + namespace})
		if err != nil {
			return false, err
		}
		for _, e := range events.Items {
			if e.Namespace != namespace || e.InvolvedObject.Namespace != namespace {
				t.Errorf("event in %s about an object in %s", e.Namespace, e.InvolvedObject.Namespace)
			}
			s.native(t, "event", e.Message)
			seen[e.InvolvedObject.Kind+" "+e.Reason] = true
		}
		return seen["Deployment ScalingReplicaSet"] && seen["ReplicaSet SuccessfulCreate"] &&
			seen["Pod FailedScheduling"] && seen["PersistentVolumeClaim ProvisioningFailed"], nil
	})
	events, err := s.client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(events.Items) == 0 || events.Items[0].Regarding.Namespace != namespace {
		t.Errorf("events of the new group: %v", err)
	}
}

// testLeases elects a leader as controllers of the tenant would.
func testLeases(t *testing.T, _ *plane, s *space, namespace string) {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, "controller", s.client.CoreV1(),
		s.client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: "one of " + s.name})
	if err != nil {
		t.Fatal(err)
	}
	led := false
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second,
		RetryPeriod: 200 * time.Millisecond, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { led = true; cancel() },
			OnStoppedLeading: func() {},
		},
	})
	if !led {
		t.Fatal("nobody was elected")
	}
	lease, err := s.client.CoordinationV1().Leases(namespace).Get(t.Context(), "controller", metav1.GetOptions{})
	if err != nil || lease.Namespace != namespace || lease.Spec.LeaseTransitions == nil {
		t.Errorf("lease: %+v, %v", lease, err)
	}
}

// testAffinity: selectors of namespaces mean those of the tenant.
func testAffinity(t *testing.T, p *plane, s *space, namespace string) {
	ctx := t.Context()
	pod := simplePod("near")
	term := func(labels map[string]string) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: labels}}
	}
	inDefault := map[string]string{"kubernetes.io/metadata.name": "default"}
	pod.Spec.Affinity = &corev1.Affinity{
		PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			term(nil), {TopologyKey: "zone", Namespaces: []string{"default"}},
		}},
		PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1,
				PodAffinityTerm: term(inDefault)}},
		},
	}
	seen, err := s.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	near, far := seen.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		seen.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm
	if len(near[0].NamespaceSelector.MatchLabels) != 0 || near[1].Namespaces[0] != "default" ||
		len(far.NamespaceSelector.MatchLabels) != 1 ||
		far.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "default" {
		t.Errorf("as the tenant sees it: %+v, %+v", near, far)
	}
	stored, err := p.admin.CoreV1().Pods(namespace+"."+s.name).Get(ctx, "near", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	near, far = stored.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		stored.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm
	if near[0].NamespaceSelector.MatchLabels["a4s.io/tenant"] != s.name ||
		near[1].Namespaces[0] != "default."+s.name ||
		far.NamespaceSelector.MatchLabels["a4s.io/tenant"] != s.name ||
		far.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "default."+s.name {
		t.Errorf("inside: %+v, %+v", near, far)
	}
}

// testClasses: what administrators make for all can be used.
func testClasses(t *testing.T, _ *plane, s *space, namespace string) {
	ctx := t.Context()
	pod := simplePod("classy")
	boxed := "boxed"
	pod.Spec.PriorityClassName, pod.Spec.RuntimeClassName = "high", &boxed
	made, err := s.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if made.Spec.Priority == nil || *made.Spec.Priority != 1000 || made.Spec.Overhead.Memory().String() != "8Mi" {
		t.Errorf("priority %v, overhead %v", made.Spec.Priority, made.Spec.Overhead)
	}
	claim, err := s.client.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: quantity("1Gi")},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil || claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName != "basic" {
		t.Errorf("claim of the default class: %+v, %v", claim, err)
	}
	for _, get := range []func() error{
		func() error {
			_, err := s.client.SchedulingV1().PriorityClasses().Get(ctx, "high", metav1.GetOptions{})
			return err
		},
		func() error {
			_, err := s.client.NodeV1().RuntimeClasses().Get(ctx, "boxed", metav1.GetOptions{})
			return err
		},
		func() error {
			_, err := s.client.StorageV1().StorageClasses().Get(ctx, "basic", metav1.GetOptions{})
			return err
		},
	} {
		if err := get(); err != nil {
			t.Error(err)
		}
	}
}
