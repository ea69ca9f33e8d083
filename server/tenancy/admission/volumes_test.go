package admission

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	core "k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/server/addons/localstorage"
	"github.com/a4s-io/a4s/server/tenancy/nodes"
)

func TestBindings(t *testing.T) {
	for _, c := range []struct {
		volume, namespace string
		refused           bool
	}{
		{"pv.t1.tenant", "", false},
		{"pv.t1.tenant", "default.t1", false},
		{"pv.t1.tenant", "default.t2", true},
		{"pv.t1.tenant", "default", true},
		{"pv", "default.t2", false},
		{"pv", "default", false},
	} {
		volume := &core.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: c.volume}}
		if c.namespace != "" {
			volume.Spec.ClaimRef = &core.ObjectReference{Namespace: c.namespace, Name: "data"}
		}
		attr := admission.NewAttributesRecord(volume, nil,
			schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolume"}, "", c.volume,
			schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}, "",
			admission.Update, nil, false, nil)
		if err := checkBinding(attr); (err != nil) != c.refused {
			t.Errorf("%s for a claim in %q: %v", c.volume, c.namespace, err)
		}
	}
}

// TestClaimsComeBackAsTheyWere: neither the selector that binders see nor the
// name of a provisioned volume, which a tenant sees uncomposed, changes a claim
// that is written back.
func TestClaimsComeBackAsTheyWere(t *testing.T) {
	own := metav1.LabelSelectorRequirement{Key: "a4s.io/tenant", Operator: metav1.LabelSelectorOpIn,
		Values: []string{"t1"}}
	fast := map[string]string{"disk": "fast"}
	claim := func(volume string, s *metav1.LabelSelector) *core.PersistentVolumeClaim {
		return &core.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default.t1"},
			Spec: core.PersistentVolumeClaimSpec{VolumeName: volume, Selector: s}}
	}
	for name, c := range map[string]struct{ old, written, want *core.PersistentVolumeClaim }{
		"no selector": {claim("", nil), claim("",
			&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{own}}), claim("", nil)},
		"an empty selector": {claim("", &metav1.LabelSelector{}),
			claim("", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{own}}),
			claim("", &metav1.LabelSelector{})},
		"a selector": {claim("", &metav1.LabelSelector{MatchLabels: fast}), claim("",
			&metav1.LabelSelector{MatchLabels: fast, MatchExpressions: []metav1.LabelSelectorRequirement{own}}),
			claim("", &metav1.LabelSelector{MatchLabels: fast})},
		"a new claim": {nil, claim("", &metav1.LabelSelector{MatchLabels: fast}),
			claim("", &metav1.LabelSelector{MatchLabels: fast})},
		"a changed selector": {claim("", nil), claim("", &metav1.LabelSelector{MatchLabels: fast}),
			claim("", &metav1.LabelSelector{MatchLabels: fast})},
		"a provisioned volume":  {claim("pvc-1", nil), claim("pvc-1.t1.tenant", nil), claim("pvc-1", nil)},
		"a volume of the space": {claim("pv.t1.tenant", nil), claim("pv.t1.tenant", nil), claim("pv.t1.tenant", nil)},
		"another volume":        {claim("pvc-1", nil), claim("pvc-2.t1.tenant", nil), claim("pvc-2.t1.tenant", nil)},
		"a first volume":        {claim("", nil), claim("pv.t1.tenant", nil), claim("pv.t1.tenant", nil)},
	} {
		var old runtime.Object
		if c.old != nil {
			old = c.old
		}
		restoreClaim(admission.NewAttributesRecord(c.written, old,
			schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}, "default.t1", "data",
			schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}, "",
			admission.Update, nil, false, nil))
		if !equality.Semantic.DeepEqual(c.written.Spec, c.want.Spec) {
			t.Errorf("%s: %+v, want %+v", name, c.written.Spec, c.want.Spec)
		}
	}
}

// TestVolumesOfNodes: only the cluster makes volumes of directories of nodes
// for tenants, and only it lets them go.
func TestVolumesOfNodes(t *testing.T) {
	g, err := newGuard(annotated{}, nodes.New(annotated{}))
	if err != nil {
		t.Fatal(err)
	}
	volume := func(changes ...func(*core.PersistentVolume)) *core.PersistentVolume {
		v := &core.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
			Name: "pvc-1.t1.tenant", Finalizers: []string{localstorage.Finalizer, "kubernetes.io/pv-protection"},
			Annotations: map[string]string{localstorage.ProvisionedBy: localstorage.Provisioner,
				localstorage.State: localstorage.Made},
		}}
		v.Spec.PersistentVolumeReclaimPolicy = core.PersistentVolumeReclaimDelete
		v.Spec.Local = &core.LocalVolumeSource{Path: "/data/x"}
		for _, f := range changes {
			f(v)
		}
		return v
	}
	set := func(key, value string) func(*core.PersistentVolume) {
		return func(v *core.PersistentVolume) { v.Annotations[key] = value }
	}
	foreign := set(localstorage.ProvisionedBy, "example.com/x")
	free := func(v *core.PersistentVolume) { v.Finalizers = v.Finalizers[1:] }
	retain := func(v *core.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = core.PersistentVolumeReclaimRetain
	}
	hostPath := func(v *core.PersistentVolume) {
		v.Spec.Local, v.Spec.HostPath = nil, &core.HostPathVolumeSource{Path: "/"}
	}
	for name, c := range map[string]struct {
		byTenant    bool
		volume, old *core.PersistentVolume
		refused     bool
	}{
		"made by the cluster":      {false, volume(), nil, false},
		"made by the tenant":       {true, volume(), nil, true},
		"of another provisioner":   {false, volume(foreign), nil, true},
		"of the root of the node":  {false, volume(hostPath), nil, true},
		"taken over by the tenant": {true, volume(), volume(foreign), true},
		"labelled by the tenant": {true,
			volume(func(v *core.PersistentVolume) { v.Labels = map[string]string{"a": "b"} }), volume(), false},
		"said to be removed by the tenant": {true,
			volume(set(localstorage.State, localstorage.Removed)), volume(), true},
		"renounced by the tenant": {true, volume(foreign), volume(), true},
		"let go by the tenant":    {true, volume(free), volume(), true},
		"kept by the tenant":      {true, volume(free, retain), volume(retain), false},
		"said to be removed by the node": {false,
			volume(set(localstorage.State, localstorage.Removed)), volume(), false},
		"let go by the cluster": {false, volume(free), volume(), false},
	} {
		err := storage{g.permits}.checkVolume(t.Context(), "t1", c.byTenant, c.volume, c.old)
		if (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
