package spaces_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
	"github.com/a4s-io/a4s/tests/nstest"
)

// TestWallPods is what pods of strangers cannot have, and how an administrator of
// the cluster gives it to a tenant: volumes that lead out of the space (V10),
// places and priorities past the scheduler, ports of nodes, and owners that all
// share (V16).
func TestWallPods(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	post(t, p.Admin, "/apis/scheduling.k8s.io/v1/priorityclasses", `{"metadata":{"name":"high"},"value":1000}`)
	post(t, p.Admin, "/apis/scheduling.k8s.io/v1/priorityclasses", `{"metadata":{"name":"low"},"value":-1}`)
	for _, class := range []string{"fast", "slow"} {
		post(t, p.Admin, "/apis/storage.k8s.io/v1/storageclasses",
			`{"metadata":{"name":"`+class+`"},"provisioner":"example.com/x"}`)
		post(t, p.Admin, "/apis/node.k8s.io/v1/runtimeclasses", `{"metadata":{"name":"`+class+`"},"handler":"runc"}`)
	}
	s := p.bareTenant(t, "t1")
	const pods, volumes, claims = "/api/v1/namespaces/default/pods", "/api/v1/persistentvolumes",
		"/api/v1/namespaces/default/persistentvolumeclaims"
	pod := func(spec string) string {
		return `{"metadata":{"generateName":"x-"},"spec":{` + spec + `"containers":[{"name":"c","image":"i"}]}}`
	}
	mount := func(source string) string { return pod(`"volumes":[{"name":"v",` + source + `}],`) }
	volume := func(source string) string {
		return `{"metadata":{"generateName":"x-"},"spec":{"capacity":{"storage":"1Gi"},` +
			`"accessModes":["ReadWriteOnce"],` + source + `}}`
	}
	claim := func(class string) string {
		return `{"metadata":{"generateName":"x-"},"spec":{"accessModes":["ReadWriteOnce"],` +
			`"resources":{"requests":{"storage":"1Gi"}},"storageClassName":"` + class + `"}}`
	}
	for _, c := range []struct {
		name, path, body string
		key, value       string // the allowance, "" for none
	}{
		{"V10 fc by its world wide id", pods, mount(`"fc":{"wwids":["0123456789"]}`), allowances.VolumeTypes, "fc"},
		{"V10 iscsi", pods, mount(`"iscsi":{"targetPortal":"192.0.2.1","iqn":"iqn.2001-04.com.example:x","lun":0}`),
			allowances.VolumeTypes, "iscsi"},
		{"V10 flexVolume", pods, mount(`"flexVolume":{"driver":"example.com/x"}`), allowances.VolumeTypes, "*"},
		{"V10 nfs", pods, mount(`"nfs":{"server":"192.0.2.1","path":"/"}`), allowances.VolumeTypes, "iscsi, nfs"},
		{"V10 a volume that is nfs", volumes, volume(`"nfs":{"server":"192.0.2.1","path":"/"}`),
			allowances.VolumeTypes, "nfs"},
		{"V10 a volume that is fc", volumes, volume(`"fc":{"wwids":["0123456789"]}`), allowances.VolumeTypes, "fc"},
		{"V10 another's volume of a driver", volumes,
			volume(`"csi":{"driver":"csi.example.com","volumeHandle":"theirs"}`),
			allowances.CSIDrivers, "csi.example.com"},
		{"hostPath", pods, mount(`"hostPath":{"path":"/"}`), allowances.PodSecurity, "privileged"},
		{"a node of its own choice", pods, pod(`"nodeName":"n1",`), allowances.NodeNames, "true"},
		{"every taint", pods, pod(`"tolerations":[{"operator":"Exists"}],`), allowances.Tolerations, "*"},
		{"the taint of control planes", pods,
			pod(`"tolerations":[{"key":"node-role.kubernetes.io/control-plane","operator":"Exists"}],`),
			allowances.Tolerations, "node-role.kubernetes.io/control-plane"},
		{"V6 a high priority", pods, pod(`"priorityClassName":"high",`), allowances.PriorityClasses, "high"},
		{"V6 the cluster's own priority", pods, pod(`"priorityClassName":"system-node-critical",`),
			allowances.PodSecurity, "privileged"},
		{"a port of nodes", pods, `{"metadata":{"generateName":"x-"},"spec":{"containers":[{"name":"c","image":"i",` +
			`"ports":[{"containerPort":80,"hostPort":8080}]}]}}`, allowances.HostPorts, "8000-8999"},
		{"a taint by its key", pods, pod(`"tolerations":[{"key":"example.com/gpu","operator":"Exists"}],`), "", ""},
		{"a low priority", pods, pod(`"priorityClassName":"low",`), "", ""},
		{"what restricted pods mount", pods, mount(`"emptyDir":{}},{"name":"w","configMap":{"name":"x"}},` +
			`{"name":"p","persistentVolumeClaim":{"claimName":"x"}`), "", ""},
		{"V16 a StorageClass as an owner", "/api/v1/namespaces/default/configmaps",
			`{"metadata":{"generateName":"x-","ownerReferences":[{"apiVersion":"storage.k8s.io/v1",` +
				`"kind":"StorageClass","name":"fast","uid":"1","blockOwnerDeletion":true}]}}`, "", "never"},
		{"V16 a shared role as an owner", "/api/v1/namespaces/default/configmaps",
			`{"metadata":{"generateName":"x-","ownerReferences":[{"apiVersion":"rbac.authorization.k8s.io/v1",` +
				`"kind":"ClusterRole","name":"view","uid":"1"}]}}`, "", "never"},
		{"V16 a node as an owner", "/api/v1/namespaces/default/configmaps", `{"metadata":{"generateName":"x-",` +
			`"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"1"}]}}`, "", "never"},
		{"an owner in the space", "/api/v1/namespaces/default/configmaps", `{"metadata":{"generateName":"x-",` +
			`"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"none","uid":"1"}]}}`, "", ""},
	} {
		code, body := do(t, s.config, http.MethodPost, c.path+"?dryRun=All", c.body, nil)
		if refused := c.value != ""; refused != (code == http.StatusForbidden) ||
			!refused && code != http.StatusCreated {
			t.Errorf("%s: %d %.400s", c.name, code, body)
			continue
		}
		if c.key == "" {
			continue
		}
		p.allow(t, "t1", c.key, c.value)
		eventually(t, c.name+", which is allowed by now", func(context.Context) (bool, error) {
			code, body = do(t, s.config, http.MethodPost, c.path+"?dryRun=All", c.body, nil)
			return code == http.StatusCreated, nil
		})
		p.disallow(t, "t1", c.key)
		eventually(t, c.name+", which is not allowed any more", func(context.Context) (bool, error) {
			code, _ = do(t, s.config, http.MethodPost, c.path+"?dryRun=All", c.body, nil)
			return code == http.StatusForbidden, nil
		})
	}
	// Classes that all may use but those that have a list.
	boxed := pod(`"runtimeClassName":"slow",`)
	for _, c := range []struct{ path, body, key string }{{claims, claim("slow"), allowances.StorageClasses},
		{pods, boxed, allowances.RuntimeClasses}} {
		if code, body := do(t, s.config, http.MethodPost, c.path+"?dryRun=All", c.body,
			nil); code != http.StatusCreated {
			t.Errorf("without %s: %d %.300s", c.key, code, body)
		}
		p.allow(t, "t1", c.key, "fast")
		eventually(t, c.key+" to hold", func(context.Context) (bool, error) {
			code, body := do(t, s.config, http.MethodPost, c.path+"?dryRun=All", c.body, nil)
			return code == http.StatusForbidden && strings.Contains(body, "fast"), nil
		})
	}
	// What cannot be read is refused where it is written.
	if code, body := do(t, p.Admin, http.MethodPatch, "/api/v1/tenants/t1",
		`{"metadata":{"annotations":{"a4s.io/volume-types":"nsf"}}}`,
		[]string{"Content-Type: application/merge-patch+json"}); code != http.StatusUnprocessableEntity ||
		!strings.Contains(body, "nsf") {
		t.Errorf("an allowance that is none: %d %.300s", code, body)
	}
	if code, body := do(t, p.Admin, http.MethodPatch, "/api/v1/tenants/t1",
		`{"spec":{"allow":{"volumeTypes":["nfs","nsf"]}}}`,
		[]string{"Content-Type: application/merge-patch+json"}); code != http.StatusUnprocessableEntity ||
		!strings.Contains(body, "spec.allow.volumeTypes[1]") {
		t.Errorf("a field that is none: %d %.300s", code, body)
	}
	testWallV16(t, p, s)
}

// testWallV16: an object of a tenant with a foreign owner that was there before
// can still be changed and deleted.
func testWallV16(t *testing.T, p *plane, s *space) {
	owned := `{"metadata":{"name":"owned","ownerReferences":[{"apiVersion":"storage.k8s.io/v1",` +
		`"kind":"StorageClass","name":"fast","uid":"1","blockOwnerDeletion":true}]}}`
	post(t, p.Admin, "/api/v1/namespaces/default.t1/configmaps", owned)
	cm, err := s.client.CoreV1().ConfigMaps("default").Get(t.Context(), "owned", metav1.GetOptions{})
	if err != nil {
		return // the garbage collector was faster
	}
	cm.Data = map[string]string{"a": "b"}
	body, err := json.Marshal(cm)
	if err != nil {
		t.Fatal(err)
	}
	if code, answer := do(t, s.config, http.MethodPut, "/api/v1/namespaces/default/configmaps/owned", string(body),
		nil); code != http.StatusOK && code != http.StatusNotFound {
		t.Errorf("changing what had a foreign owner before: %d %.300s", code, answer)
	}
}
