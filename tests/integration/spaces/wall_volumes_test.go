package spaces_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
	"github.com/a4s-io/a4s/tests/nstest"
)

// claimSpec is the spec of a claim with some more of it, which is empty or begins
// with a comma.
func claimSpec(more string) string {
	return `"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}` + more + `}`
}

// beta is metadata with the class in the old annotation.
func beta(class string) string {
	return `"annotations":{"` + corev1.BetaStorageClassAnnotation + `":"` + class + `"},`
}

// TestWallW7InlineVolumes: a driver that is refused for a persistent volume is refused
// for a volume in a pod, and a list of storage classes holds for claims whoever makes
// them, when they change, and whatever field or default names the class.
func TestWallW7InlineVolumes(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, func(cfg *config.Server) { cfg.Disable = []string{config.AddonLocalStorage} })
	for _, class := range []string{"fast", "slow"} {
		post(t, p.Admin, "/apis/storage.k8s.io/v1/storageclasses",
			`{"metadata":{"name":"`+class+`"},"provisioner":"example.com/x"}`)
		post(t, p.Admin, "/apis/storage.k8s.io/v1/volumeattributesclasses",
			`{"metadata":{"name":"`+class+`"},"driverName":"example.com","parameters":{"a":"b"}}`)
	}
	s := p.bareTenant(t, "t1")
	mount := func(source string) string { return podBody("", `"volumes":[{"name":"v",`+source+`}],`) }
	inline := mount(`"csi":{"driver":"nfs.csi.k8s.io","volumeAttributes":{"server":"192.0.2.1","share":"/"}}`)
	refuses := func(body, why string) func() bool {
		return func() bool {
			code, answer, _ := s.makesPod(t, asDryRun, body)
			return (code == http.StatusForbidden && strings.Contains(answer, why)) == (why != "")
		}
	}
	for _, c := range []struct {
		value   string
		refused string
	}{{"", "by spec.allow.csiDrivers of the tenant"}, {"csi.example.com", "nfs.csi.k8s.io can be anybody's"},
		{"nfs.csi.k8s.io", ""}, {"*", ""}} {
		p.holds(t, s, allowances.CSIDrivers, c.value, refuses(inline, c.refused))
	}
	p.holds(t, s, allowances.CSIDrivers, "csi.example.com", refuses(inline, "can be anybody's"))

	// Classes: "" is no list.
	claim := func(meta, more string) string {
		return `{"metadata":{` + meta + `"generateName":"x-"},` + claimSpec(more) + `}`
	}
	named := func(class string) string { return claim("", `,"storageClassName":"`+class+`"`) }
	template := func(meta, more string) string {
		return mount(`"ephemeral":{"volumeClaimTemplate":{"metadata":{` + strings.TrimSuffix(meta, ",") + `},` +
			claimSpec(more) + `}}`)
	}
	attributes := `,"storageClassName":"fast","volumeAttributesClassName":"`
	volume := func(meta, more string) string {
		return `{"metadata":{` + meta + `"generateName":"x-"},"spec":{"capacity":{"storage":"1Gi"},` +
			`"accessModes":["ReadWriteOnce"],"csi":{"driver":"csi.example.com","volumeHandle":"mine"}` + more + `}}`
	}
	const volumes = "/api/v1/persistentvolumes"
	rows := []struct{ name, path, body, refused string }{
		{"the class", inClaims, named("slow"), "the StorageClass slow"},
		{"the class in the old annotation", inClaims, claim(beta("slow"), ""), "the StorageClass slow"},
		{"both", inClaims, claim(beta("slow"), `,"storageClassName":"fast"`), "the StorageClass slow"},
		{"both, the other way round", inClaims, claim(beta("fast"), `,"storageClassName":"slow"`),
			"the StorageClass slow"},
		{"no class", inClaims, claim("", ""), "spec.storageClassName is missing"},
		{"the class of its attributes", inClaims, claim("", attributes+`slow"`), "the VolumeAttributesClass slow"},
		{"a volume of the class", volumes, volume("", `,"storageClassName":"slow"`), "the StorageClass slow"},
		{"a volume of the class by annotation", volumes, volume(beta("slow"), ""), "the StorageClass slow"},
		{"a generic ephemeral volume", inPods, template("", `,"storageClassName":"slow"`), "the StorageClass slow"},
		{"one by annotation", inPods, template(beta("slow"), ""), "the StorageClass slow"},
		{"one by its attributes", inPods, template("", attributes+`slow"`), "the VolumeAttributesClass slow"},
		{"allowed", inClaims, named("fast"), ""},
		{"an allowed class of attributes", inClaims, claim("", attributes+`fast"`), ""},
		{"a volume of one's own", inClaims, named(""), ""},
		{"an allowed volume", volumes, volume("", `,"storageClassName":"fast"`), ""},
		{"an allowed ephemeral volume", inPods, template("", `,"storageClassName":"fast"`), ""},
	}
	judge := func(list bool) {
		t.Helper()
		for _, r := range rows {
			code, answer := do(t, s.config, http.MethodPost, r.path+asDryRun, r.body, nil)
			refused := list && r.refused != ""
			if refused != (code == http.StatusForbidden && strings.Contains(answer, r.refused)) ||
				!refused && code != http.StatusCreated {
				t.Errorf("%s, with a list: %v: %d %.400s", r.name, list, code, answer)
			}
		}
	}
	judge(false)
	post(t, s.config, inClaims, `{"metadata":{"name":"before"},`+claimSpec("")+`}`)
	post(t, s.config, inClaims, `{"metadata":{"name":"fast"},`+claimSpec(`,"storageClassName":"fast"`)+`}`)
	listed := func(value string) {
		t.Helper()
		p.holds(t, s, allowances.StorageClasses, value, func() bool {
			code, _ := do(t, s.config, http.MethodPost, inClaims+asDryRun, named("slow"), nil)
			return code == http.StatusForbidden
		})
	}
	listed("fast")
	judge(true)
	testClaimsOfControllers(t, p, s, template("", ""))

	// What is changed later: attributes only of a claim that is bound.
	mine := strings.Replace(volume("", `,"claimRef":{"namespace":"default","name":"bound"}`), `"generateName":"x-"`,
		`"name":"mine"`, 1)
	post(t, s.config, volumes, mine)
	post(t, s.config, inClaims, `{"metadata":{"name":"bound"},`+claimSpec(`,"storageClassName":""`)+`}`)
	eventually(t, "a claim to be bound", func(ctx context.Context) (bool, error) {
		claim, err := s.client.CoreV1().PersistentVolumeClaims("default").Get(ctx, "bound", metav1.GetOptions{})
		return err == nil && claim.Status.Phase == corev1.ClaimBound, err
	})
	const merge = "Content-Type: application/merge-patch+json"
	for _, c := range []struct{ name, patch string }{
		{"before", `{"spec":{"storageClassName":"slow"}}`},
		{"bound", `{"spec":{"volumeAttributesClassName":"slow"}}`},
	} {
		for _, cfg := range []struct{ of, prefix string }{{"its user", ""}, {"the system", "/tenants/t1"}} {
			config := s.config
			if cfg.prefix != "" {
				config = p.Admin
			}
			code, answer := do(t, config, http.MethodPatch, cfg.prefix+inClaims+"/"+c.name, c.patch, []string{merge})
			if code != http.StatusForbidden || !strings.Contains(answer, "is not one of this space's") {
				t.Errorf("%s of %s by %s: %d %.300s", c.patch, c.name, cfg.of, code, answer)
			}
		}
	}
	if code, answer := do(t, s.config, http.MethodPatch, inClaims+"/before", `{"metadata":{"labels":{"a":"b"}}}`,
		[]string{merge}); code != http.StatusOK {
		t.Errorf("another change of what was there before: %d %.300s", code, answer)
	}
	if code, answer := do(t, s.config, http.MethodPatch, volumes+"/mine", `{"spec":{"storageClassName":"slow"}}`,
		[]string{merge}); code != http.StatusForbidden {
		t.Errorf("a volume that changes its class: %d %.300s", code, answer)
	}

	other := p.bareTenant(t, "t2")
	post(t, other.config, inClaims, `{"metadata":{"name":"waits"},`+claimSpec("")+`}`)
	// A default that is not allowed is no way in either: claims get it when they are
	// made, and those that wait get it later.
	if code, answer := do(t, p.Admin, http.MethodPatch, "/apis/storage.k8s.io/v1/storageclasses/slow",
		`{"metadata":{"annotations":{"storageclass.kubernetes.io/is-default-class":"true"}}}`,
		[]string{merge}); code != http.StatusOK {
		t.Fatalf("%d %s", code, answer)
	}
	eventually(t, "the default to be refused", func(context.Context) (bool, error) {
		code, answer := do(t, s.config, http.MethodPost, inClaims+asDryRun, claim("", ""), nil)
		return code == http.StatusForbidden && strings.Contains(answer, "the StorageClass slow"), nil
	})
	eventually(t, "a claim without a list to get the default", func(ctx context.Context) (bool, error) {
		waits, err := other.client.CoreV1().PersistentVolumeClaims("default").Get(ctx, "waits", metav1.GetOptions{})
		return err == nil && waits.Spec.StorageClassName != nil, err
	})
	kept, err := s.client.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "before", metav1.GetOptions{})
	if err != nil || kept.Spec.StorageClassName != nil {
		t.Errorf("the claim that waits got the class %v, %v", kept.Spec.StorageClassName, err)
	}
}

// testClaimsOfControllers: those of templates of StatefulSets and of pods are the
// choice of who wrote the template.
func testClaimsOfControllers(t *testing.T, p *plane, s *space, pod string) {
	post(t, s.config, "/apis/apps/v1/namespaces/default/statefulsets", `{"metadata":{"name":"data"},"spec":{`+
		`"serviceName":"data","selector":{"matchLabels":{"a":"data"}},"template":{"metadata":{"labels":{"a":"data"}},`+
		`"spec":{"containers":[{"name":"c","image":"i"}]}},"volumeClaimTemplates":[{"metadata":{"name":"v"},`+
		claimSpec(`,"storageClassName":"slow"`)+`}]}}`)
	// The list says nothing of what has no class and no default.
	_, _, made := s.makesPod(t, "", pod)
	for _, who := range []string{"data", made.Name} {
		eventually(t, "the claims of "+who+" to be refused", func(ctx context.Context) (bool, error) {
			events, err := s.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			for _, e := range events.Items {
				if e.InvolvedObject.Name == who && strings.Contains(e.Message, "forbidden") &&
					strings.Contains(e.Message, "torageClass") {
					return true, nil
				}
			}
			return false, nil
		})
	}
	claims, err := s.client.CoreV1().PersistentVolumeClaims("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claims.Items {
		if c.Name != "before" && c.Name != "fast" {
			t.Errorf("there is a claim %s of the class %v", c.Name, c.Spec.StorageClassName)
		}
	}
	// Administrators of the cluster allow a class, they do not pass by the list.
	if code, answer := do(t, p.Admin, http.MethodPost, "/tenants/t1"+inClaims+asDryRun,
		`{"metadata":{"name":"theirs"},`+claimSpec(`,"storageClassName":"slow"`)+`}`,
		nil); code != http.StatusForbidden {
		t.Errorf("a claim by the system: %d %.300s", code, answer)
	}
}
