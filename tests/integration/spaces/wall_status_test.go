package spaces_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/tests/nstest"
)

// statusOf is an object with what a tenant writes into its status, and what not.
type statusOf struct {
	kind, path, body string
	// own are statuses that upstream's conformance tests and programs of tenants
	// write; systems are refused, whichever is named by its field.
	own     []string
	systems map[string]string
}

func statuses() []statusOf {
	const core, apps, batch = "/api/v1/namespaces/default/", "/apis/apps/v1/namespaces/default/",
		"/apis/batch/v1/namespaces/default/"
	const template = `"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":` +
		`{"schedulerName":"nobody","containers":[{"name":"c","image":"i"}]}}`
	const condition = `"conditions":[{"type":"StatusPatched","status":"True","reason":"E2E","message":"m"}]`
	return []statusOf{
		{"Namespace", "/api/v1/namespaces", `"spec":{}`, []string{condition},
			map[string]string{"status.phase": `"phase":"Terminating"`}},
		{"Pod", core + "pods", `"spec":{"schedulerName":"nobody","readinessGates":[{"conditionType":"MyStatus"}],` +
			`"containers":[{"name":"c","image":"i"}]}`,
			[]string{`"conditions":[{"type":"MyStatus","status":"True"}]`, `"message":"m","reason":"r"`,
				`"conditions":[{"type":"example.com/x","status":"True"}]`},
			map[string]string{"status.podIP": `"podIP":"10.42.0.9","podIPs":[{"ip":"10.42.0.9"}]`,
				"status.phase": `"phase":"Succeeded"`, "status.startTime": `"startTime":"2026-01-01T00:00:00Z"`,
				"status.nominatedNodeName": `"nominatedNodeName":"n1"`,
				"the condition Unheard":    `"conditions":[{"type":"Unheard","status":"True"}]`,
				"the condition Disruption": `"conditions":[{"type":"DisruptionTarget","status":"True"}]`}},
		{"Service", core + "services", `"spec":{"type":"LoadBalancer","loadBalancerClass":"example.com/x",` +
			`"ports":[{"port":80}]}`,
			[]string{`"conditions":[{"type":"X","status":"True","reason":"E2E","message":"m",` +
				`"lastTransitionTime":"2026-01-01T00:00:00Z"}]`},
			map[string]string{"status.loadBalancer": `"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}`}},
		{"PersistentVolumeClaim", core + "persistentvolumeclaims", `"spec":{"accessModes":["ReadWriteOnce"],` +
			`"storageClassName":"none","resources":{"requests":{"storage":"1Gi"}}}`, []string{condition},
			map[string]string{"status.phase": `"phase":"Bound"`, "status.capacity": `"capacity":{"storage":"1Ti"}`,
				"status.allocatedResources":               `"allocatedResources":{"storage":"2Gi"}`,
				"status.currentVolumeAttributesClassName": `"currentVolumeAttributesClassName":"gold"`,
				"status.modifyVolumeStatus":               `"modifyVolumeStatus":{"status":"Pending"}`}},
		{"PersistentVolume", "/api/v1/persistentvolumes", `"spec":{"capacity":{"storage":"1Gi"},` +
			`"accessModes":["ReadWriteOnce"],"nfs":{"server":"192.0.2.1","path":"/"}}`,
			[]string{`"message":"StatusPatched","reason":"E2E"`},
			map[string]string{"status.phase": `"phase":"Released"`}},
		{"ReplicationController", core + "replicationcontrollers",
			`"spec":{"replicas":0,` + strings.Replace(template, `{"matchLabels":{"a":"b"}}`, `{"a":"b"}`, 1) + `}`,
			[]string{`"replicas":0,` + condition, `"readyReplicas":0,"availableReplicas":0`}, nil},
		{"ResourceQuota", core + "resourcequotas", `"spec":{"hard":{"cpu":"500"}}`,
			[]string{`"hard":{"cpu":"500"}`, `"used":{"cpu":"1"}`}, nil},
		{"Deployment", apps + "deployments", `"spec":{"replicas":0,` + template + `}`,
			[]string{condition, `"replicas":0,"collisionCount":1`}, nil},
		{"ReplicaSet", apps + "replicasets", `"spec":{"replicas":0,` + template + `}`, []string{condition}, nil},
		{"StatefulSet", apps + "statefulsets", `"spec":{"replicas":0,"serviceName":"s",` + template + `}`,
			[]string{condition}, nil},
		{"Job", batch + "jobs", `"spec":{"suspend":true,"template":{"spec":{"restartPolicy":"Never","containers":` +
			`[{"name":"c","image":"i"}]}}}`, []string{`"conditions":[{"type":"Custom","status":"True"}]`}, nil},
		{"CronJob", batch + "cronjobs", `"spec":{"schedule":"0 0 1 1 *","jobTemplate":{"spec":{"template":{"spec":{` +
			`"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}`,
			[]string{`"lastScheduleTime":"2026-01-01T00:00:00Z"`},
			map[string]string{"status.active": `"active":[{"kind":"Job","namespace":"default","name":"x"}]`}},
		{"HorizontalPodAutoscaler", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
			`"spec":{"maxReplicas":2,"scaleTargetRef":{"kind":"Deployment","name":"x","apiVersion":"apps/v1"}}`,
			[]string{`"desiredReplicas":1,"currentReplicas":1`}, nil},
		{"PodDisruptionBudget", "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
			`"spec":{"minAvailable":1,"selector":{"matchLabels":{"x":"y"}}}`,
			[]string{`"disruptedPods":{"x":"2026-01-01T00:00:00Z"}`}, nil},
		{"Ingress", "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
			`"spec":{"defaultBackend":{"service":{"name":"s","port":{"number":80}}}}`,
			[]string{`"loadBalancer":{"ingress":[{"ip":"169.1.1.1"}]}`}, nil},
		{"ValidatingAdmissionPolicy", registration + "validatingadmissionpolicies",
			`"spec":{` + configMapConstraints + `,"validations":[{"expression":"true"}]}`,
			[]string{`"conditions":[{"type":"X","status":"True","reason":"E2E","message":"m",` +
				`"lastTransitionTime":"2026-01-01T00:00:00Z"}]`}, nil},
		{"CustomResourceDefinition", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `"spec":{"group":` +
			`"example.com","scope":"Cluster","names":{"plural":"statuses","kind":"Foo"},"versions":[{"name":"v1",` +
			`"served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}`,
			[]string{`"storedVersions":["v1"]`},
			map[string]string{"status.acceptedNames": `"acceptedNames":{"plural":"pods","kind":"Pod"}`}},
	}
}

// TestWallW1StatusOfEveryKind: what others believe of an object its tenant does not
// write, by its status or with the object, and writes the rest as before.
func TestWallW1StatusOfEveryKind(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	s := p.tenant(t, "t1")
	for _, c := range statuses() {
		t.Run(c.kind, func(t *testing.T) { testWallW1Status(t, s, c) })
	}
	// A token is bound in the space, whatever there is elsewhere.
	for kind, code := range map[string]int{`"Node","name":"none"`: http.StatusForbidden,
		`"Pod","name":"none"`: http.StatusNotFound} {
		if got, answer := do(t, s.config, http.MethodPost, "/api/v1/namespaces/default/serviceaccounts/default/token",
			`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","spec":{"boundObjectRef":{"apiVersion":`+
				`"v1","kind":`+kind+`}}}`, nil); got != code {
			t.Errorf("a token that is bound to a %s: %d %.300s", kind, got, answer)
		}
	}
}

func testWallW1Status(t *testing.T, s *space, c statusOf) {
	name := "status"
	if c.kind == "CustomResourceDefinition" {
		name = "statuses.example.com"
	}
	meta := `{"metadata":{"name":"` + name + `"},`
	all := ""
	for field, status := range c.systems {
		if strings.HasPrefix(field, "status.") {
			all += "," + status
		}
	}
	body := meta + c.body + `,"status":{` + strings.TrimPrefix(all, ",") + `}}`
	code, answer := do(t, s.config, http.MethodPost, c.path, body, nil)
	if code != http.StatusCreated {
		t.Fatalf("%d %.500s", code, answer)
	}
	// What came with the new object is gone.
	gone := func(answer string) {
		t.Helper()
		var got, asked struct{ Status map[string]json.RawMessage }
		if err := json.Unmarshal([]byte(answer), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(body), &asked); err != nil {
			t.Fatal(err)
		}
		for field, value := range asked.Status {
			if is := string(got.Status[field]); is == string(value) {
				t.Errorf("status.%s came with the object: %s", field, is)
			}
		}
	}
	gone(answer)
	path := c.path + "/" + name
	patch := meta + `"status":{` + strings.TrimPrefix(all, ",") + `}}`
	if code, answer := do(t, s.config, http.MethodPatch, path, patch, []string{asMergePatch}); code != http.StatusOK {
		t.Errorf("patching the object with its status: %d %.300s", code, answer)
	} else {
		gone(answer)
	}
	for field, status := range c.systems {
		code, answer := do(t, s.config, http.MethodPatch, path+"/status", `{"status":{`+status+`}}`,
			[]string{asMergePatch})
		// Upstream refuses some itself, as invalid.
		if code != http.StatusForbidden && code != http.StatusUnprocessableEntity || code == http.StatusForbidden &&
			!(strings.Contains(answer, field) && strings.Contains(answer, "is written by the system only")) {
			t.Errorf("%s: %d %.400s", field, code, answer)
		}
	}
	for _, status := range c.own {
		last := ""
		eventually(t, "the status of a "+c.kind+": "+status, func(context.Context) (bool, error) {
			code, answer := do(t, s.config, http.MethodPatch, path+"/status", `{"status":{`+status+`}}`,
				[]string{asMergePatch})
			last = answer
			return code == http.StatusOK || code == http.StatusForbidden || code == http.StatusUnprocessableEntity, nil
		})
		if !strings.Contains(last, `"metadata":{"name":"`+name+`"`) && strings.Contains(last, `"kind":"Status"`) {
			t.Errorf("%s: %.400s", status, last)
		}
	}
	// As it was read it is taken.
	if code, now := get(t, s.config, path+"/status"); code != http.StatusOK {
		t.Errorf("%d %.300s", code, now)
	} else if code, answer := do(t, s.config, http.MethodPut, path+"/status", now, nil); code != http.StatusOK &&
		code != http.StatusConflict {
		t.Errorf("its status as it is: %d %.300s", code, answer)
	}
}
