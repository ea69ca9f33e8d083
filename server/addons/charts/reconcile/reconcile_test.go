package reconcile

import (
	"strings"
	"testing"

	helmv1 "github.com/k3s-io/helm-controller/pkg/apis/helm.cattle.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/space"
)

// TestManaged: which HelmCharts are worked on.
func TestManaged(t *testing.T) {
	for what, c := range map[string]struct {
		annotations map[string]string
		spec        helmv1.HelmChartSpec
		want        bool
	}{
		"new":             {nil, helmv1.HelmChartSpec{Chart: "x"}, true},
		"inline":          {nil, helmv1.HelmChartSpec{ChartContent: "x"}, true},
		"claimed":         {map[string]string{ManagedByAnnotation: ManagedBy}, helmv1.HelmChartSpec{Chart: "x"}, true},
		"another's":       {map[string]string{ManagedByAnnotation: "x"}, helmv1.HelmChartSpec{Chart: "x"}, false},
		"nobody's":        {map[string]string{UnmanagedAnnotation: ""}, helmv1.HelmChartSpec{Chart: "x"}, false},
		"without a chart": {nil, helmv1.HelmChartSpec{Repo: "x"}, false},
		"claimed, but not": {map[string]string{ManagedByAnnotation: ManagedBy, UnmanagedAnnotation: "true"},
			helmv1.HelmChartSpec{Chart: "x"}, false},
	} {
		chart := &helmv1.HelmChart{ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations}, Spec: c.spec}
		if got := managed(chart); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// TestInvalid: what can have no release is refused before it is claimed, and is let go without looking for one.
func TestInvalid(t *testing.T) {
	for what, c := range map[string]struct {
		name, target, version, want string
	}{
		"right":             {"web", "", "", ""},
		"elsewhere":         {"web", "default", "v3", ""},
		"of a tenant":       {"web", "default.t1", "", "not a namespace of the system space"},
		"a path":            {"web", "a/secrets", "", "not the name of a namespace"},
		"long namespace":    {"web", strings.Repeat("a", 64), "", "not the name of a namespace"},
		"too long a name":   {strings.Repeat("a", 64), "", "", "metadata.name"},
		"too long for Helm": {strings.Repeat("a", 54), "", "", "metadata.name"},
		"another version":   {"web", "", "v2", "want v3"},
		"upper case":        {"web", "Default", "", "not the name of a namespace"},
	} {
		system := &Reconciler{Space: space.System}
		err := system.invalid(&helmv1.HelmChart{ObjectMeta: metav1.ObjectMeta{Name: c.name, Namespace: "kube-system"},
			Spec: helmv1.HelmChartSpec{TargetNamespace: c.target, HelmVersion: c.version}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestMessagesAreShort: what is said of an error fits into an event, and ends at a character.
func TestMessagesAreShort(t *testing.T) {
	long := strings.Repeat("ä", 2*maxMessage)
	got := short(long)
	if len(got) > maxMessage+3 || !strings.HasPrefix(long, strings.TrimSuffix(got, "...")) {
		t.Errorf("%d bytes", len(got))
	}
	if short("x") != "x" {
		t.Error("a short one is changed")
	}
}
