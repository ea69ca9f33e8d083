package spaces_test

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/rewrite"
)

// TestVolumesOfSpaces: a claim is bound to a volume of its own space, although
// a free volume of another space fits better, by the controller manager and by
// the scheduler, and neither tries anything that has to be refused.
func TestVolumesOfSpaces(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	system := p.as(t, "system", p.Admin)
	a, b := p.tenant(t, "a"), p.tenant(t, "b")
	post(t, p.Admin, "/apis/storage.k8s.io/v1/storageclasses", `{"metadata":{"name":"late"},`+
		`"provisioner":"kubernetes.io/no-provisioner","volumeBindingMode":"WaitForFirstConsumer"}`)
	post(t, p.Admin, "/apis/storage.k8s.io/v1/storageclasses",
		`{"metadata":{"name":"made"},"provisioner":"example.com/maker"}`)
	p.machine(t, "machine")
	refused := p.refusedWrites(t)

	for _, class := range []string{"now", "late"} {
		t.Run(class, func(t *testing.T) {
			// That of b is the smallest, so upstream would take it first.
			b.available(t, sized("theirs-"+class, class, "1Gi", nil))
			a.available(t, sized("small-"+class, class, "2Gi", nil))
			a.available(t, sized("fast-"+class, class, "3Gi", map[string]string{"disk": "fast"}))
			a.available(t, sized("large-"+class, class, "4Gi", nil))
			system.available(t, sized("systems-"+class, class, "5Gi", nil))

			fast := &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "fast"}}
			for _, c := range []struct {
				space       *space
				name        string
				selector    *metav1.LabelSelector
				volume      string
				wantVolume  string
				description string
			}{
				{a, "selected", fast, "", "fast-" + class, "the one it selects"},
				{a, "named", nil, "large-" + class, "large-" + class, "the one it names"},
				{a, "any", nil, "", "small-" + class, "the smallest of its space"},
				{system, "any", nil, "", "systems-" + class, "the system's own"},
			} {
				c.space.claims(t, c.name+"-"+class, class, func(claim *corev1.PersistentVolumeClaim) {
					claim.Spec.Selector, claim.Spec.VolumeName = c.selector, c.volume
				})
				c.space.consumes(t, c.name+"-"+class)
				eventually(t, c.description+" to be bound to the claim "+c.name+" of "+c.space.name,
					func(ctx context.Context) (bool, error) {
						claim, err := c.space.client.CoreV1().PersistentVolumeClaims("default").
							Get(ctx, c.name+"-"+class,
								metav1.GetOptions{})
						if err != nil || claim.Status.Phase != corev1.ClaimBound {
							return false, err
						}
						if claim.Spec.VolumeName != c.wantVolume {
							t.Fatalf("bound to %s", claim.Spec.VolumeName)
						}
						if got := claim.Spec.Selector; (got == nil) != (c.selector == nil) || got != nil &&
							(len(got.MatchExpressions) > 0 || !maps.Equal(got.MatchLabels, c.selector.MatchLabels)) {
							t.Errorf("the selector became %v", got)
						}
						return true, nil
					})
				eventually(t, "the pod with the claim "+c.name+" to be scheduled",
					func(ctx context.Context) (bool, error) {
						pod, err := c.space.client.CoreV1().Pods("default").Get(ctx, c.name+"-"+class,
							metav1.GetOptions{})
						return err == nil && pod.Spec.NodeName == "machine", err
					})
			}
			// There is nothing left for it but what is not a's.
			a.claims(t, "none-"+class, class, nil)
			a.consumes(t, "none-"+class)
			// Claims and pods are looked at one after another: after a later
			// one these were.
			a.available(t, sized("later-"+class, "later-"+class, "1Gi", nil))
			a.claims(t, "later-"+class, "later-"+class, nil)
			a.consumes(t, "later-"+class)
			eventually(t, "a later pod to be scheduled", func(ctx context.Context) (bool, error) {
				pod, err := a.client.CoreV1().Pods("default").Get(ctx, "later-"+class, metav1.GetOptions{})
				return err == nil && pod.Spec.NodeName != "", err
			})
			claim, err := a.client.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "none-"+class,
				metav1.GetOptions{})
			if err != nil || claim.Status.Phase != corev1.ClaimPending || claim.Spec.VolumeName != "" {
				t.Errorf("a claim without a volume in its space: %+v, %v", claim.Spec, err)
			}
			theirs, err := b.client.CoreV1().PersistentVolumes().Get(t.Context(), "theirs-"+class, metav1.GetOptions{})
			if err != nil || theirs.Status.Phase != corev1.VolumeAvailable || theirs.Spec.ClaimRef != nil ||
				len(theirs.Labels) > 0 {
				t.Errorf("the volume of another tenant: %+v, %v", theirs, err)
			}
		})
	}
	t.Run("provisioned", func(t *testing.T) { testProvisioned(t, p, a) })
	if now := p.refusedWrites(t); now != refused {
		t.Errorf("writes that were refused:\n%s\nbefore:\n%s", now, refused)
	}
}

// testProvisioned does what a provisioner does for a claim of a tenant: it
// makes a volume of the system for this claim.
func testProvisioned(t *testing.T, p *plane, s *space) {
	ctx := t.Context()
	s.claims(t, "provisioned", "made", nil)
	var claim *corev1.PersistentVolumeClaim
	eventually(t, "the claim to be handed to the provisioner", func(ctx context.Context) (bool, error) {
		var err error
		claim, err = p.admin.CoreV1().PersistentVolumeClaims("default."+s.name).Get(ctx, "provisioned",
			metav1.GetOptions{})
		return err == nil && claim.Annotations["volume.kubernetes.io/storage-provisioner"] == "example.com/maker", err
	})
	if claim.Spec.Selector != nil {
		t.Fatalf("provisioners refuse claims with a selector: %v", claim.Spec.Selector)
	}
	v := sized("pvc-"+string(claim.UID), "made", "1Gi", nil)
	v.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": "example.com/maker"}
	v.Spec.ClaimRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim",
		Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion}
	if _, err := p.admin.CoreV1().PersistentVolumes().Create(ctx, v, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the claim to be bound to the volume that was made for it", func(ctx context.Context) (bool, error) {
		own, err := s.client.CoreV1().PersistentVolumeClaims("default").Get(ctx, "provisioned", metav1.GetOptions{})
		return err == nil && own.Status.Phase == corev1.ClaimBound && own.Spec.VolumeName == v.Name, err
	})
	// A client that writes back what it read changes nothing else.
	claims := s.client.CoreV1().PersistentVolumeClaims("default")
	if _, err := rewrite.Object(ctx, claims, "provisioned", func(own *corev1.PersistentVolumeClaim) {
		own.Labels = map[string]string{"changed": "yes"}
	}); err != nil {
		t.Errorf("updating the bound claim: %v", err)
	}
	now, err := p.admin.CoreV1().PersistentVolumeClaims("default."+s.name).Get(ctx, "provisioned", metav1.GetOptions{})
	if err != nil || now.Spec.VolumeName != v.Name || now.Labels["changed"] != "yes" {
		t.Errorf("after the update: %+v, %v", now, err)
	}
}

// refusedWrites are the metrics of changes to volumes and claims that were
// refused. Conflicts are not refusals: who made the change tries again.
func (p *plane) refusedWrites(t *testing.T) string {
	t.Helper()
	code, body := get(t, p.Admin, "/metrics")
	if code != http.StatusOK {
		t.Fatalf("metrics: %d", code)
	}
	var out []string
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "apiserver_request_total{") &&
			strings.Contains(line, `resource="persistentvolume`) && !strings.Contains(line, `verb="GET"`) &&
			!strings.Contains(line, `code="409"`) &&
			(strings.Contains(line, `code="4`) || strings.Contains(line, `code="5`)) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// machine is a node that pods are scheduled to, and nothing more.
func (p *plane) machine(t *testing.T, name string) {
	t.Helper()
	post(t, p.Admin, "/api/v1/nodes", `{"metadata":{"name":"`+name+`"}}`)
	code, body := do(t, p.Admin, http.MethodPatch, "/api/v1/nodes/"+name+"/status", `{"status":{
		"capacity":{"cpu":"8","memory":"8Gi","pods":"110"},"allocatable":{"cpu":"8","memory":"8Gi","pods":"110"},
		"conditions":[{"type":"Ready","status":"True","reason":"Test","lastHeartbeatTime":"2099-01-01T00:00:00Z"},
			{"type":"ContainerRuntimeReady","status":"True","reason":"Test"}]}}`, []string{"Content-Type: " +
		"application/merge-patch+json"})
	if code != http.StatusOK {
		t.Fatalf("the status of the node: %d %s", code, body)
	}
	p.lives(t, name)
}

func sized(name, class, size string, labels map[string]string) *corev1.PersistentVolume {
	v := netVolume(name)
	v.Labels = labels
	v.Spec.StorageClassName = class
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: quantity(size)}
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	return v
}

// claims makes a claim of 1Gi in the namespace default.
func (s *space) claims(t *testing.T, name, class string, change func(*corev1.PersistentVolumeClaim)) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: &class,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: quantity("1Gi")},
			},
		},
	}
	if change != nil {
		change(claim)
	}
	if _, err := s.client.CoreV1().PersistentVolumeClaims("default").
		Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// consumes makes a pod with a claim of the same name.
func (s *space) consumes(t *testing.T, name string) {
	t.Helper()
	if _, err := s.client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "i",
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
