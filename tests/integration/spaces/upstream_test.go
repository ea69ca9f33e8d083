package spaces_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/tests/nstest"
)

// TestUpstream runs what Kubernetes does for its users in two tenants at the
// same time, with the same names everywhere. There are no nodes: the status
// that a kubelet would write is written by the system.
func TestUpstream(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	p.shared(t)
	a, b := p.tenant(t, "a"), p.tenant(t, "b")
	var running sync.WaitGroup
	for _, c := range []struct {
		name string // of the case, and of its namespace
		run  func(t *testing.T, p *plane, s *space, namespace string)
	}{
		{"terminating", testNamespaceLifecycle},
		{"quota", testQuota},
		{"limits", testLimits},
		{"podsecurity", testPodSecurity},
		{"eviction", testEviction},
		{"volumes", testVolumes},
		{"services", testServices},
		{"networking", testNetworking},
		{"scaling", testScaling},
		{"cronjobs", testCronJobs},
		{"statefulsets", testStatefulSets},
		{"events", testEvents},
		{"leases", testLeases},
		{"boundtokens", testBoundTokens},
		{"garbage", testGarbage},
		{"aggregation", testAggregation},
		{"affinity", testAffinity},
		{"classes", testClasses},
		{"bulk", testBulk},
	} {
		for _, s := range []*space{a, b} {
			running.Go(func() {
				t.Run(c.name+" in "+s.name, func(t *testing.T) {
					s.namespace(t, c.name, nil)
					c.run(t, p, s, c.name)
				})
			})
		}
	}
	running.Wait()
	t.Run("volumes of another tenant", func(t *testing.T) { testForeignVolumes(t, a, b) })
}

// shared makes what the administrators of a cluster make for all.
func (p *plane) shared(t *testing.T) {
	t.Helper()
	post(t, p.Admin, "/apis/scheduling.k8s.io/v1/priorityclasses", `{"metadata":{"name":"high"},"value":1000}`)
	post(t, p.Admin, "/apis/node.k8s.io/v1/runtimeclasses",
		`{"metadata":{"name":"boxed"},"handler":"boxed","overhead":{"podFixed":{"memory":"8Mi"}}}`)
	// Of two default classes the newer one counts, or the first by name.
	post(t, p.Admin, "/apis/storage.k8s.io/v1/storageclasses", `{"metadata":{"name":"basic",`+
		`"annotations":{"storageclass.kubernetes.io/is-default-class":"true"}},"provisioner":"example.com/none"}`)
	// Nothing is scheduled to it, so that pods are deleted at once.
	post(t, p.Admin, "/api/v1/nodes", `{"metadata":{"name":"machine"},"spec":{"unschedulable":true}}`)
	post(t, p.Admin, "/apis/networking.k8s.io/v1/ingressclasses",
		`{"metadata":{"name":"web"},"spec":{"controller":"example.com/web"}}`)
}

// namespace makes one that pods can be made in.
func (s *space) namespace(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	if _, err := s.client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the service account of namespace "+name, func(ctx context.Context) (bool, error) {
		_, err := s.client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
}

// account is a client with a token of a service account.
func (p *plane) account(
	t *testing.T, s *space, namespace, name string, bound *authenticationv1.BoundObjectReference,
) *space {
	t.Helper()
	token, err := s.client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := rest.AnonymousClientConfig(s.config)
	cfg.BearerToken = token.Status.Token
	return p.as(t, s.name, cfg)
}

// runs says of a pod what its kubelet would.
func (p *plane) runs(t *testing.T, s *space, namespace, name, ip string) {
	t.Helper()
	patch := `{"status":{"phase":"Running","podIP":"` + ip + `","podIPs":[{"ip":"` + ip +
		`"}],"conditions":[{"type":"Ready","status":"True"}]}}`
	if _, err := p.admin.CoreV1().Pods(namespace+"."+s.name).Patch(t.Context(), name, types.StrategicMergePatchType,
		[]byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// native fails if text has the name of the tenant in it, as part of another.
func (s *space) native(t *testing.T, what, text string) {
	t.Helper()
	for _, composite := range []string{"." + s.name + `"`, "." + s.name + "/", "." + s.name + " ", "." + s.name + ":",
		"." + s.name + ".tenant"} {
		if strings.Contains(text+" ", composite) {
			t.Errorf("%s: %s in %q", what, composite, text)
		}
	}
}

// netVolume is one that is not of a node.
func netVolume(name string) *corev1.PersistentVolume {
	v := volume(name)
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		NFS: &corev1.NFSVolumeSource{Server: "nfs.example.com", Path: "/"},
	}
	return v
}

func (s *space) claim(t *testing.T, namespace, name, class string) {
	t.Helper()
	if _, err := s.client.CoreV1().PersistentVolumeClaims(namespace).Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: &class,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: quantity("1Gi")},
			},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// available makes a volume and waits until it can be claimed.
func (s *space) available(t *testing.T, v *corev1.PersistentVolume) {
	t.Helper()
	if _, err := s.client.CoreV1().PersistentVolumes().Create(t.Context(), v, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "volume "+v.Name+" to be available", func(ctx context.Context) (bool, error) {
		now, err := s.client.CoreV1().PersistentVolumes().Get(ctx, v.Name, metav1.GetOptions{})
		return err == nil && now.Status.Phase == corev1.VolumeAvailable, err
	})
}

func testVolumes(t *testing.T, _ *plane, s *space, namespace string) {
	ctx := t.Context()
	v := netVolume("disk")
	v.Spec.StorageClassName = "disks-of-" + s.name
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	s.available(t, v)
	s.claim(t, namespace, "data", v.Spec.StorageClassName)
	eventually(t, "the claim to be bound", func(ctx context.Context) (bool, error) {
		claim, err := s.client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, "data", metav1.GetOptions{})
		return err == nil && claim.Status.Phase == corev1.ClaimBound && claim.Spec.VolumeName == "disk", err
	})
	bound, err := s.client.CoreV1().PersistentVolumes().Get(ctx, "disk", metav1.GetOptions{})
	if err != nil || bound.Spec.ClaimRef == nil || bound.Spec.ClaimRef.Namespace != namespace ||
		bound.Spec.ClaimRef.Name != "data" {
		t.Errorf("bound volume: %+v, %v", bound.Spec.ClaimRef, err)
	}
	if err := s.client.CoreV1().PersistentVolumeClaims(namespace).
		Delete(ctx, "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the volume to be released", func(ctx context.Context) (bool, error) {
		v, err := s.client.CoreV1().PersistentVolumes().Get(ctx, "disk", metav1.GetOptions{})
		return err == nil && v.Status.Phase == corev1.VolumeReleased, err
	})
}

// testForeignVolumes: a claim is not bound to a volume of another tenant, also
// if there is no other.
func testForeignVolumes(t *testing.T, a, b *space) {
	ctx := t.Context()
	theirs := netVolume("theirs")
	theirs.Spec.StorageClassName = "same"
	b.available(t, theirs)
	a.claim(t, "default", "mine", "same")
	// Claims are bound one after another: after a later one this was tried.
	own := netVolume("own")
	own.Spec.StorageClassName = "own"
	a.available(t, own)
	a.claim(t, "default", "later", "own")
	eventually(t, "the later claim to be bound", func(ctx context.Context) (bool, error) {
		claim, err := a.client.CoreV1().PersistentVolumeClaims("default").Get(ctx, "later", metav1.GetOptions{})
		return err == nil && claim.Status.Phase == corev1.ClaimBound, err
	})
	v, err := b.client.CoreV1().PersistentVolumes().Get(ctx, "theirs", metav1.GetOptions{})
	if err != nil || v.Spec.ClaimRef != nil {
		t.Fatalf("the volume of another tenant is claimed: %+v, %v", v, err)
	}
	if err := b.client.CoreV1().PersistentVolumes().Delete(ctx, "theirs", metav1.DeleteOptions{}); err != nil &&
		!apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}
