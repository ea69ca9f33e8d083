package localstorage

import (
	"context"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/server/controlplane/interning"
)

func newStorage(client kubernetes.Interface) *Storage {
	return New(Options{
		Client: client, Path: "/data/storage", Pool: interning.New(), Log: logrus.WithField("component", Name),
	})
}

func machine(name, hostname string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{corev1.LabelHostname: hostname}}}
}

func options(namespace, name, node string) controller.ProvisionOptions {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: name, UID: "1234"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return controller.ProvisionOptions{
		PVC: claim, PVName: volumeName(claim), SelectedNodeName: node,
		StorageClass: &storagev1.StorageClass{Provisioner: Provisioner,
			VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)},
	}
}

func TestProvision(t *testing.T) {
	long := strings.Repeat("x", 250)
	for name, c := range map[string]struct {
		options func() controller.ProvisionOptions
		path    string // of the volume; else what the error says
		state   controller.ProvisioningState
		err     string
	}{
		"of the system": {func() controller.ProvisionOptions { return options("default", "data", "a") },
			"/data/storage/pvc-1234_default_data", "", ""},
		"of a tenant": {func() controller.ProvisionOptions { return options("default.t1", "data", "a") },
			"/data/storage/pvc-1234.t1.tenant_default.t1_data", "", ""},
		"with a long one": {func() controller.ProvisionOptions { return options("default", long, "a") },
			"/data/storage/" + ("pvc-1234_default_" + long)[:255], "", ""},
		"a node that is gone": {func() controller.ProvisionOptions { return options("default", "data", "gone") }, "",
			controller.ProvisioningReschedule, "gone"},
		"a node of another name": {func() controller.ProvisionOptions { return options("default", "data", "b") }, "",
			controller.ProvisioningReschedule, "kubernetes.io/hostname=other"},
		"no node": {func() controller.ProvisionOptions { return options("default", "data", "") }, "",
			controller.ProvisioningFinished, "WaitForFirstConsumer"},
		"many writers": {func() controller.ProvisionOptions {
			o := options("default", "data", "a")
			o.PVC.Spec.AccessModes = append(o.PVC.Spec.AccessModes, corev1.ReadWriteMany)
			return o
		}, "", controller.ProvisioningFinished, "ReadWriteMany"},
		"a clone": {func() controller.ProvisionOptions {
			o := options("default", "data", "a")
			o.PVC.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "x"}
			return o
		}, "", controller.ProvisioningFinished, "data source"},
		"a parameter": {func() controller.ProvisionOptions {
			o := options("default", "data", "a")
			o.StorageClass.Parameters = map[string]string{"nodePath": "/x"}
			return o
		}, "", controller.ProvisioningFinished, "nodePath"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStorage(fake.NewClientset(machine("a", "a"), machine("b", "other")))
			volume, state, err := s.Provision(t.Context(), c.options())
			if c.path == "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || state != c.state {
					t.Errorf("%v, %v", state, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			volume.Annotations = map[string]string{ProvisionedBy: Provisioner} // the library's part
			if volume.Spec.Local.Path != c.path || !Ours(volume) || nodeOf(volume) != "a" {
				t.Errorf("path %s on %s, ours: %v", volume.Spec.Local.Path, nodeOf(volume), Ours(volume))
			}
		})
	}
}

// made is a volume on node a as it is after it was provisioned.
func made(name string, changes ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name),
			Annotations: map[string]string{ProvisionedBy: Provisioner}, Finalizers: []string{Finalizer}},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				Local: &corev1.LocalVolumeSource{Path: "/data/storage/" + name + "_default_data"},
			},
			NodeAffinity: nodeAffinity("a"),
		},
	}
	for _, f := range changes {
		f(v)
	}
	return v
}

func in(state string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) { v.Annotations[State] = state }
}

func released(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeReleased }

func at(path string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) { v.Spec.Local.Path = path }
}

func TestWorkOfANode(t *testing.T) {
	client := fake.NewClientset(
		made("new"), made("there", in(Made)), made("away", in(Made), released), made("gone", in(Removed), released),
		made("kept", in(Made), released, func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}),
		made("elsewhere", func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = nodeAffinity("b") }),
		made("forged", at("/etc")), made("escapes", at("/data/storage/../escapes_x")),
		made("foreign", func(v *corev1.PersistentVolume) { v.Annotations[ProvisionedBy] = "example.com/x" }),
	)
	s := newStorage(client)
	if _, _, ok := s.Work("a"); ok {
		t.Error("there is work before anything is known")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.run(ctx, func() { close(ready) }) }()
	<-ready
	work, _, ok := s.Work("a")
	if !ok || len(work.Volumes) != 2 || work.Volumes[0] != (joinapi.LocalVolume{Name: "away", UID: "uid-away",
		Path: "/data/storage/away_default_data", Remove: true}) ||
		work.Volumes[1] != (joinapi.LocalVolume{Name: "new", UID: "uid-new", Path: "/data/storage/new_default_data"}) {
		t.Errorf("the work is %+v", work)
	}

	for _, c := range []struct {
		node     string
		done     joinapi.LocalVolumeDone
		notFound bool
		state    string
	}{
		{"b", joinapi.LocalVolumeDone{Name: "away", UID: "uid-away", Removed: true}, true, Made},
		{"a", joinapi.LocalVolumeDone{Name: "away", UID: "uid-earlier", Removed: true}, true, Made},
		{"a", joinapi.LocalVolumeDone{Name: "away", UID: "uid-away", Removed: true, Error: "mounted"}, false, Made},
		{"a", joinapi.LocalVolumeDone{Name: "there", UID: "uid-there", Removed: true}, false, Made},
		{"a", joinapi.LocalVolumeDone{Name: "forged", UID: "uid-forged"}, true, ""},
		{"a", joinapi.LocalVolumeDone{Name: "away", UID: "uid-away", Removed: true}, false, Removed},
		{"a", joinapi.LocalVolumeDone{Name: "new", UID: "uid-new"}, false, Made},
	} {
		if err := s.Done(t.Context(), c.node, c.done); apierrors.IsNotFound(err) != c.notFound ||
			err != nil && !c.notFound {
			t.Errorf("%s says %+v: %v", c.node, c.done, err)
		}
		v, err := client.CoreV1().PersistentVolumes().Get(t.Context(), c.done.Name, metav1.GetOptions{})
		if err != nil || v.Annotations[State] != c.state {
			t.Errorf("after %s says %+v it is %q, %v", c.node, c.done, v.Annotations[State], err)
		}
	}
	for work, changed, _ := s.Work("a"); len(work.Volumes) > 0; work, changed, _ = s.Work("a") {
		<-changed
	}
	_, changed, _ := s.Work("a")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	<-changed
	if _, _, ok := s.Work("a"); ok {
		t.Error("there is work after the end")
	}
}

func TestShouldDelete(t *testing.T) {
	s := newStorage(fake.NewClientset(machine("a", "a")))
	for name, c := range map[string]struct {
		volume *corev1.PersistentVolume
		want   bool
	}{
		"while the directory is there": {made("v", in(Made), released), false},
		"before it was made":           {made("v", released), false},
		"after it was removed":         {made("v", in(Removed), released), true},
		"on a node that is gone": {made("v", in(Made), released,
			func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = nodeAffinity("b") }), true},
		"somebody else's": {made("v", in(Removed), released, at("/etc")), false},
	} {
		if got := s.ShouldDelete(t.Context(), c.volume); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
