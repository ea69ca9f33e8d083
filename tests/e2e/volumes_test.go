package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
	"github.com/a4s-io/a4s/tests/rewrite"
)

// claim asks for a volume of the default class.
func (c *cluster) claim(t *testing.T, ns, name string) {
	t.Helper()
	pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pvc.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	pvc.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
	if _, err := c.client.CoreV1().PersistentVolumeClaims(ns).
		Create(t.Context(), pvc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// shellPod runs a script in which the claim of the same name is /data. Its user
// is nobody in particular.
func shellPod(name, script, claim string) *corev1.Pod {
	pod := testboxPod(name, "x")
	box := &pod.Spec.Containers[0]
	box.Image = busyboxImage
	box.Command, box.Args = []string{"/bin/busybox", "sh", "-c"}, []string{script}
	box.SecurityContext = &corev1.SecurityContext{RunAsUser: new(int64(4711))}
	return withClaim(pod, claim)
}

func withClaim(pod *corev1.Pod, claim string) *corev1.Pod {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}})
	box := &pod.Spec.Containers[0]
	box.VolumeMounts = append(box.VolumeMounts, corev1.VolumeMount{Name: claim, MountPath: "/data"})
	return pod
}

// volumeOf is the volume that a claim is bound to.
func (c *cluster) volumeOf(t *testing.T, ns, claim string) *corev1.PersistentVolume {
	t.Helper()
	pvc, err := c.client.CoreV1().PersistentVolumeClaims(ns).Get(t.Context(), claim, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	volume, err := c.client.CoreV1().PersistentVolumes().Get(t.Context(), pvc.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return volume
}

// removed deletes a pod and waits until it is gone.
func (c *cluster) removed(t *testing.T, ns, pod string) {
	t.Helper()
	if err := c.client.CoreV1().Pods(ns).Delete(t.Context(), pod, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.gone(t, ns, pod)
}

// gone waits until there is no such pod.
func (c *cluster) gone(t *testing.T, ns, pod string) {
	t.Helper()
	hosts.Until(t, podTimeout, "pod "+pod+" is gone", func(ctx context.Context) error {
		_, err := c.client.CoreV1().Pods(ns).Get(ctx, pod, metav1.GetOptions{})
		return wantNotFound(err)
	})
}

func wantNotFound(err error) error {
	if err == nil {
		return errors.New("it is there")
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// waitVolumeGone waits until a volume and its directory are gone.
func (c *cluster) waitVolumeGone(t *testing.T, volume *corev1.PersistentVolume, on *hosts.Host) {
	t.Helper()
	hosts.Until(t, podTimeout, "volume "+volume.Name+" and its directory are gone", func(ctx context.Context) error {
		_, err := c.client.CoreV1().PersistentVolumes().Get(ctx, volume.Name, metav1.GetOptions{})
		if err := wantNotFound(err); err != nil {
			return fmt.Errorf("the volume: %w", err)
		}
		if _, err := os.Lstat(on.Path(volume.Spec.Local.Path)); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("the directory: %v", err)
		}
		return nil
	})
}

func TestLocalVolumes(t *testing.T) { inEverySpace(t, testLocalVolumes) }

func testLocalVolumes(t *testing.T, c *cluster) {
	ns := c.namespace(t)
	c.claim(t, ns, "data")
	c.finishPod(t, ns, shellPod("web-0", "echo kept > /data/word && /bin/busybox ln -s /etc/a4s /data/link", "data"))
	volume := c.volumeOf(t, ns, "data")
	directory := c.host.Path(volume.Spec.Local.Path)
	if word, err := os.ReadFile(filepath.Join(directory, "word")); err != nil || string(word) != "kept\n" {
		t.Errorf("the directory of the node has %q, %v", word, err)
	}
	if got := filepath.Base(volume.Spec.Local.Path); !strings.HasPrefix(got, volume.Name) ||
		!strings.HasSuffix(got, "_data") || filepath.Dir(volume.Spec.Local.Path) != dataDir+"/storage" {
		t.Errorf("the directory is %s", volume.Spec.Local.Path)
	}
	c.removed(t, ns, "web-0")
	if out := c.finishPod(t, ns,
		shellPod("web-0", "/bin/busybox cat /data/word", "data")); strings.TrimSpace(out) != "kept" {
		t.Errorf("the pod after it reads %q", out)
	}
	c.removed(t, ns, "web-0")

	tenant := c.tenant != ""
	if tenant {
		c.testVolumeOfTenant(t, volume)
	}
	if err := c.client.CoreV1().PersistentVolumeClaims(ns).
		Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.waitVolumeGone(t, volume, c.host)
	if _, err := os.Stat(c.host.Path(kubeconfig)); err != nil {
		t.Errorf("what a link in the volume points to: %v", err)
	}
}

// testVolumeOfTenant: the volume is one of the tenant's space, and of no other;
// the tenant cannot make the cluster forget the directory, nor get another one.
func (c *cluster) testVolumeOfTenant(t *testing.T, volume *corev1.PersistentVolume) {
	t.Helper()
	system := sharedCluster(t)
	if _, err := system.client.CoreV1().PersistentVolumes().Get(t.Context(), volume.Name+"."+c.tenant+".tenant",
		metav1.GetOptions{}); err != nil {
		t.Errorf("the administrator of the cluster does not see the volume: %v", err)
	}
	other := system.makeTenant(t, "other")
	list, err := other.client.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range list.Items {
		if v.Name == volume.Name {
			t.Error("another tenant sees the volume")
		}
	}
	if _, err := rewrite.Object(t.Context(), c.client.CoreV1().PersistentVolumes(), volume.Name,
		func(forgotten *corev1.PersistentVolume) { forgotten.Finalizers = nil }); !apierrors.IsForbidden(err) {
		t.Errorf("the tenant takes the finalizers off: %v", err)
	}
	if _, err := rewrite.Object(t.Context(), c.client.CoreV1().PersistentVolumes(), volume.Name,
		func(labelled *corev1.PersistentVolume) {
			labelled.Labels = map[string]string{"color": "green"}
		}); err != nil {
		t.Errorf("the tenant labels the volume: %v", err)
	}
	forged := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "forged", Annotations: volume.Annotations},
		Spec: *volume.Spec.DeepCopy()}
	forged.Spec.ClaimRef = nil
	forged.Spec.Local.Path = "/etc"
	if _, err := c.client.CoreV1().PersistentVolumes().Create(t.Context(), forged,
		metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the tenant makes a volume of a directory of nodes: %v", err)
	}
}

// testVolumesOfTwoNodes: a volume is where its pod is, and its directory goes
// when its node is back.
func testVolumesOfTwoNodes(t *testing.T, c *cluster, worker *node) {
	ns := c.namespace(t)
	c.claim(t, ns, "far")
	c.finishPod(t, ns, on(worker.host.Name, shellPod("far", "echo far > /data/word", "far")))
	volume := c.volumeOf(t, ns, "far")
	if _, err := os.Stat(worker.host.Path(volume.Spec.Local.Path)); err != nil {
		t.Errorf("the node of the pod: %v", err)
	}
	if _, err := os.Stat(c.host.Path(volume.Spec.Local.Path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the other node: %v", err)
	}
	// The volume, not the pod, says where.
	c.removed(t, ns, "far")
	if out := c.finishPod(t, ns,
		shellPod("again", "/bin/busybox cat /data/word", "far")); strings.TrimSpace(out) != "far" {
		t.Errorf("the pod after it reads %q", out)
	}
	c.removed(t, ns, "again")

	worker.proc.Kill()
	if err := c.client.CoreV1().PersistentVolumeClaims(ns).
		Delete(t.Context(), "far", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	hosts.Until(t, podTimeout, "the volume waits for its node", func(ctx context.Context) error {
		v, err := c.client.CoreV1().PersistentVolumes().Get(ctx, volume.Name, metav1.GetOptions{})
		if err == nil && v.Status.Phase != corev1.VolumeReleased {
			err = fmt.Errorf("it is %s", v.Status.Phase)
		}
		return err
	})
	if _, err := os.Stat(worker.host.Path(volume.Spec.Local.Path)); err != nil {
		t.Errorf("the directory went without its node: %v", err)
	}
	if err := worker.start(); err != nil {
		t.Fatal(err)
	}
	c.waitVolumeGone(t, volume, worker.host)
	c.waitNodeReady(t, worker.host.Name, worker.started)

	// A space goes with its volumes.
	tenant := c.makeTenant(t, "leaves")
	tenant.claim(t, "default", "data")
	tenant.finishPod(t, "default", on(c.host.Name, shellPod("web", "echo here > /data/word", "data")))
	volume = tenant.volumeOf(t, "default", "data")
	directory := c.host.Path(volume.Spec.Local.Path)
	if _, err := os.Stat(filepath.Join(directory, "word")); err != nil {
		t.Error(err)
	}
	c.must(t, "tenant", "delete", "leaves")
	hosts.Until(t, podTimeout, "the directory of the deleted tenant is gone", func(ctx context.Context) error {
		if _, err := os.Lstat(directory); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("it is there (%v)", err)
		}
		_, err := c.client.CoreV1().PersistentVolumes().Get(ctx, volume.Name+".leaves.tenant", metav1.GetOptions{})
		return wantNotFound(err)
	})
}
