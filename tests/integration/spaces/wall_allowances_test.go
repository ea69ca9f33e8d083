package spaces_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/workload"
	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
	"github.com/a4s-io/a4s/tests/nstest"
)

// The ways to what an allowance is about.
const (
	byAbsence    = "absence"    // nothing says it
	byField      = "field"      // one of the fields that lead to it
	byAnnotation = "annotation" // of the object
)

// way is a request for what an allowance is about.
type way struct {
	kind, name string
	path, body string
	// value is what the allowance has, "" for none.
	value string
	// refused is in the answer to a request that is refused.
	refused string
	// has and hasNot are in what was made, has not in it.
	has, hasNot string
}

// pastAllowance is a pod template that wants more than the tenant has, and what
// must not be in a pod that comes of it.
type pastAllowance struct{ meta, spec, container, hasNot string }

// waysOf are those of one allowance, by its annotation. Every one has a way of absence
// and of each field; an allowance about pods has a template.
func waysOf() map[string][]way {
	spec := func(s string) string { return podBody("", s) }
	mount := func(source string) string { return spec(`"volumes":[{"name":"v",` + source + `}],`) }
	container := func(more string) string {
		return `{"metadata":{"generateName":"x-"},"spec":{"containers":[{"name":"c","image":"i",` + more + `}]}}`
	}
	initial := func(more string) string {
		return spec(`"initContainers":[{"name":"i","image":"i",` + more + `}],`)
	}
	claim := func(meta, more string) string {
		return `{"metadata":{` + meta + `"generateName":"x-"},` + claimSpec(more) + `}`
	}
	balancer := func(port int) string {
		return fmt.Sprintf(`{"metadata":{"generateName":"x-"},"spec":{"type":"LoadBalancer","ports":[{"port":%d}]}}`,
			port)
	}
	volume := func(source string) string {
		return `{"metadata":{"generateName":"x-"},"spec":{"capacity":{"storage":"1Gi"},` +
			`"accessModes":["ReadWriteOnce"],` + source + `}}`
	}
	plain := spec("")
	const services, volumes = "/api/v1/namespaces/default/services", "/api/v1/persistentvolumes"
	const nfs, security = `"nfs":{"server":"192.0.2.1","path":"/"}`, "violates PodSecurity"
	return map[string][]way{
		allowances.PodSecurity: {
			{kind: byAbsence, name: "a plain pod", path: inPods, body: plain},
			{kind: byAbsence, name: "a plain pod where more is wanted", path: inPods, body: plain, value: "restricted",
				refused: security},
			{kind: byField, name: "hostNetwork", path: inPods, body: spec(`"hostNetwork":true,`), refused: security},
			{kind: byField, name: "hostPID", path: inPods, body: spec(`"hostPID":true,`), refused: security},
			{kind: byField, name: "hostIPC", path: inPods, body: spec(`"hostIPC":true,`), refused: security},
			{kind: byField, name: "hostPath", path: inPods, body: mount(`"hostPath":{"path":"/"}`), refused: security},
			{kind: byField, name: "privileged", path: inPods, body: container(`"securityContext":{"privileged":true}`),
				refused: security},
			{kind: byField, name: "privileged at first", path: inPods,
				body: initial(`"securityContext":{"privileged":true}`), refused: security},
			{kind: byField, name: "a capability", path: inPods,
				body: container(`"securityContext":{"capabilities":{"add":["SYS_ADMIN"]}}`), refused: security},
			{kind: byField, name: "allowed", path: inPods, body: spec(`"hostPID":true,`), value: "privileged",
				has: `"hostPID":true`},
		},
		allowances.HostPorts: {
			{kind: byAbsence, name: "no port", path: inPods, body: container(`"ports":[{"containerPort":80}]`),
				hasNot: "hostPort"},
			{kind: byField, name: "of a container", path: inPods,
				body: container(`"ports":[{"containerPort":80,"hostPort":8080}]`), refused: security},
			{kind: byField, name: "of one that initializes", path: inPods,
				body:    initial(`"restartPolicy":"Always","ports":[{"containerPort":80,"hostPort":8080}]`),
				refused: security},
			{kind: byField, name: "at an address", path: inPods,
				body:    container(`"ports":[{"containerPort":80,"hostPort":8080,"hostIP":"127.0.0.1"}]`),
				refused: security},
			{kind: byField, name: "another", path: inPods, value: "8080",
				body: container(`"ports":[{"containerPort":80,"hostPort":8081}]`), refused: security},
			{kind: byField, name: "by the node's network", path: inPods, value: "8080",
				body: spec(`"hostNetwork":true,`), refused: security},
			{kind: byField, name: "allowed", path: inPods, value: "8080",
				body: container(`"ports":[{"containerPort":80,"hostPort":8080}]`), has: `"hostPort":8080`},
		},
		allowances.LoadBalancers: {
			{kind: byAbsence, name: "without a list", path: services, body: balancer(81)},
			{kind: byAbsence, name: "where Ingresses have requests", path: services, body: balancer(80),
				refused: "takes requests for Ingresses"},
			{kind: byField, name: "where Ingresses have requests, by its list", path: services, body: balancer(80),
				value: "80", has: `"port":80`},
			{kind: byAbsence, name: "of a Service that is none", path: services, value: "false",
				body: `{"metadata":{"generateName":"x-"},"spec":{"ports":[{"port":80}]}}`},
			{kind: byField, name: "none at all", path: services, body: balancer(80), value: "false",
				refused: "allows ports by spec.allow.loadBalancerPorts"},
			{kind: byField, name: "another port", path: services, body: balancer(81), value: "80",
				refused: "allows ports by spec.allow.loadBalancerPorts"},
			{kind: byField, name: "addresses of one's own choice", path: services, value: "false",
				refused: "spec.externalIPs", body: `{"metadata":{"generateName":"x-"},` +
					`"spec":{"externalIPs":["192.0.2.1"],"ports":[{"port":80}]}}`},
		},
		allowances.NodeNames: {
			{kind: byAbsence, name: "no node", path: inPods, body: plain, hasNot: "nodeName"},
			{kind: byField, name: "a node", path: inPods, body: spec(`"nodeName":"n1",`), refused: "spec.nodeName"},
			{kind: byField, name: "allowed", path: inPods, body: spec(`"nodeName":"n1",`), value: "true",
				has: `"nodeName":"n1"`},
			{kind: byField, name: "one of those that the scheduler has", path: inPods, body: spec(
				`"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[` +
					`{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}]}}},`),
				hasNot: "nodeName"},
		},
		allowances.Tolerations: {
			{kind: byAbsence, name: "none", path: inPods, body: plain, hasNot: `"key":"team"`},
			{kind: byField, name: "a key", path: inPods,
				body:   spec(`"tolerations":[{"key":"team","operator":"Exists"}],`),
				hasNot: `"key":"team"`},
			{kind: byField, name: "a key and its value", path: inPods,
				body:   spec(`"tolerations":[{"key":"team","value":"a","effect":"NoExecute"}],`),
				hasNot: `"key":"team"`},
			{kind: byField, name: "cordon", path: inPods, hasNot: corev1.TaintNodeUnschedulable,
				body: spec(`"tolerations":[{"key":"` + corev1.TaintNodeUnschedulable + `","operator":"Exists"}],`)},
			{kind: byField, name: "everything", path: inPods, body: spec(`"tolerations":[{"operator":"Exists"}],`),
				refused: "every taint"},
			{kind: byField, name: "another key", path: inPods, value: "other", hasNot: `"key":"team"`,
				body: spec(`"tolerations":[{"key":"team","operator":"Exists"}],`)},
			{kind: byField, name: "allowed", path: inPods, value: "other,team", has: `"key":"team"`,
				body: spec(`"tolerations":[{"key":"team","operator":"Exists"}],`)},
		},
		allowances.PriorityClasses: {
			{kind: byAbsence, name: "none", path: inPods, body: plain, has: `"priority":5`},
			{kind: byAbsence, name: "none, with a list", path: inPods, body: plain, value: "low", has: `"priority":5`},
			{kind: byField, name: "a class", path: inPods, body: spec(`"priorityClassName":"high",`),
				refused: "displace"},
			{kind: byField, name: "the number", path: inPods, body: spec(`"priority":1000,`), refused: "priority"},
			{kind: byField, name: "the cluster's own", path: inPods, value: "*",
				body: spec(`"priorityClassName":"system-node-critical",`), refused: "nobody else may displace"},
			{kind: byField, name: "one that is not in the list", path: inPods, value: "high",
				body: spec(`"priorityClassName":"low",`), refused: "is not one of this space's"},
			{kind: byField, name: "the one of all, by its name", path: inPods, value: "high",
				body: spec(`"priorityClassName":"usual",`), has: `"priority":5`},
			{kind: byField, name: "allowed", path: inPods, value: "high", body: spec(`"priorityClassName":"high",`),
				has: `"priority":1000`},
		},
		allowances.RuntimeClasses: {
			{kind: byAbsence, name: "none", path: inPods, body: plain, hasNot: "runtimeClassName"},
			{kind: byAbsence, name: "none, with a list", path: inPods, body: plain, value: "vm",
				has: `"runtimeClassName":"vm"`},
			{kind: byAnnotation, name: "a machine", path: inPods, body: podBody(typedAs("vm"), ""), value: "container",
				refused: "none of the RuntimeClasses"},
			{kind: byAnnotation, name: "containers", path: inPods, body: podBody(typedAs("container"), ""),
				value:   "vm",
				refused: "none of the RuntimeClasses"},
			{kind: byAnnotation, name: "a machine without a list", path: inPods, body: podBody(typedAs("vm"), ""),
				has: `"overhead":{"cpu":"100m","memory":"192Mi"}`},
			{kind: byField, name: "a class", path: inPods, body: spec(`"runtimeClassName":"container",`), value: "vm",
				refused: "is not one of this space's"},
			{kind: byField, name: "allowed", path: inPods, body: spec(`"runtimeClassName":"vm",`),
				value: "container,vm",
				has:   `"runtimeClassName":"vm"`},
		},
		allowances.StorageClasses: {
			{kind: byAbsence, name: "the default", path: inClaims, body: claim("", ""),
				has: `"storageClassName":"usual"`},
			{kind: byAbsence, name: "the default, which is not in the list", path: inClaims, body: claim("", ""),
				value: "fast", refused: "the StorageClass usual is not one of this space's: fast"},
			{kind: byAbsence, name: "the default, which is in the list", path: inClaims, body: claim("", ""),
				value: "fast,usual", has: `"storageClassName":"usual"`},
			{kind: byAnnotation, name: "the class", path: inClaims, body: claim(beta("slow"), ""), value: "fast",
				refused: "the StorageClass slow"},
			{kind: byField, name: "the class", path: inClaims, body: claim("", `,"storageClassName":"slow"`),
				value:   "fast",
				refused: "the StorageClass slow"},
			{kind: byField, name: "of its attributes", path: inClaims, value: "fast",
				body:    claim("", `,"storageClassName":"fast","volumeAttributesClassName":"slow"`),
				refused: "the VolumeAttributesClass slow"},
			{kind: byField, name: "generic ephemeral", path: inPods, value: "fast", refused: "the StorageClass slow",
				body: mount(`"ephemeral":{"volumeClaimTemplate":{` + claimSpec(`,"storageClassName":"slow"`) + `}}`)},
			{kind: byField, name: "a volume", path: volumes, value: "fast", refused: "the StorageClass slow",
				body: volume(`"storageClassName":"slow",` + nfs)},
			{kind: byField, name: "allowed", path: inClaims, body: claim("", `,"storageClassName":"fast"`),
				value: "fast",
				has:   `"storageClassName":"fast"`},
		},
		allowances.VolumeTypes: {
			{kind: byAbsence, name: "none", path: inPods, body: plain},
			{kind: byField, name: "inline", path: inPods, body: mount(nfs),
				refused: allowances.Field(allowances.VolumeTypes)},
			{kind: byField, name: "a volume", path: volumes, body: volume(nfs),
				refused: allowances.Field(allowances.VolumeTypes)},
			{kind: byField, name: "of a driver of one's own", path: inPods,
				body:    mount(`"flexVolume":{"driver":"example.com/x"}`),
				refused: allowances.Field(allowances.VolumeTypes)},
			{kind: byField, name: "another", path: inPods, body: mount(nfs), value: "iscsi",
				refused: allowances.Field(allowances.VolumeTypes)},
			{kind: byField, name: "allowed", path: inPods, body: mount(nfs), value: "nfs", has: `"nfs"`},
		},
		allowances.CSIDrivers: {
			{kind: byAbsence, name: "none", path: inPods, body: plain},
			{kind: byField, name: "inline", path: inPods, body: mount(`"csi":{"driver":"nfs.csi.k8s.io"}`),
				refused: allowances.Field(allowances.CSIDrivers)},
			{kind: byField, name: "a volume", path: volumes,
				body:    volume(`"csi":{"driver":"nfs.csi.k8s.io","volumeHandle":"x"}`),
				refused: allowances.Field(allowances.CSIDrivers)},
			{kind: byField, name: "another", path: inPods, body: mount(`"csi":{"driver":"nfs.csi.k8s.io"}`),
				value:   "x.y",
				refused: allowances.Field(allowances.CSIDrivers)},
			{kind: byField, name: "allowed", path: inPods, body: mount(`"csi":{"driver":"nfs.csi.k8s.io"}`),
				value: "nfs.csi.k8s.io", has: "nfs.csi.k8s.io"},
		},
	}
}

// templates are what wants more than a tenant has, by the allowance. Those of Services
// alone have none, nor has what only a claim can say.
func templates() map[string]pastAllowance {
	mount := func(source string) string { return `"volumes":[{"name":"v",` + source + `}],` }
	return map[string]pastAllowance{
		allowances.PodSecurity: {spec: `"hostNetwork":true,`, hasNot: `"hostNetwork":true`},
		allowances.HostPorts: {container: `,"ports":[{"containerPort":80,"hostPort":8080}]`,
			hasNot: `"hostPort":8080`},
		allowances.NodeNames: {spec: `"nodeName":"n1",`, hasNot: `"nodeName":"n1"`},
		allowances.Tolerations: {spec: `"tolerations":[{"key":"team","operator":"Exists"}],`,
			hasNot: `"key":"team"`},
		allowances.PriorityClasses: {spec: `"priorityClassName":"high",`, hasNot: `"priority":1000`},
		allowances.RuntimeClasses:  {meta: typedAs("container"), hasNot: `"runtimeClassName":"container"`},
		allowances.StorageClasses: {spec: mount(`"ephemeral":{"volumeClaimTemplate":{` +
			claimSpec(`,"storageClassName":"slow"`) + `}}`), hasNot: `"storageClassName":"slow"`},
		allowances.VolumeTypes: {spec: mount(`"nfs":{"server":"192.0.2.1","path":"/"}`), hasNot: `"nfs"`},
		allowances.CSIDrivers:  {spec: mount(`"csi":{"driver":"nfs.csi.k8s.io"}`), hasNot: `"nfs.csi.k8s.io"`},
		allowances.DeviceClasses: {container: `,"resources":{"limits":{` +
			`"deviceclass.resource.kubernetes.io/slow.example.com":"1"}}`, hasNot: "slow.example.com"},
	}
}

// TestEveryAllowanceSaysAbsenceToo walks all allowances: what holds where nothing is
// said, by annotation, and by every field that leads to the same thing; then with
// templates of every kind of workload. A new allowance fails until it has rows.
func TestEveryAllowanceSaysAbsenceToo(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, func(cfg *config.Server) { cfg.Disable = []string{config.AddonLocalStorage} })
	for _, body := range []string{`{"metadata":{"name":"high"},"value":1000}`,
		`{"metadata":{"name":"low"},"value":-1}`,
		`{"metadata":{"name":"usual"},"value":5,"globalDefault":true}`} {
		post(t, p.Admin, "/apis/scheduling.k8s.io/v1/priorityclasses", body)
	}
	for _, class := range []string{"fast", "slow", "usual"} {
		body := `{"metadata":{"name":"` + class + `"},"provisioner":"example.com/x"}`
		if class == "usual" {
			body = strings.Replace(body, `"metadata":{`,
				`"metadata":{"annotations":{"storageclass.kubernetes.io/is-default-class":"true"},`, 1)
		}
		post(t, p.Admin, "/apis/storage.k8s.io/v1/storageclasses", body)
		post(t, p.Admin, "/apis/storage.k8s.io/v1/volumeattributesclasses",
			`{"metadata":{"name":"`+class+`"},"driverName":"example.com","parameters":{"a":"b"}}`)
	}
	s := p.bareTenant(t, "t1")
	// Upstream wants the label before it is asked whether the tenant may.
	if code, answer := do(t, p.Admin, http.MethodPatch, "/api/v1/tenants/t1/namespaces/default",
		`{"metadata":{"labels":{"resource.kubernetes.io/admin-access":"true"}}}`,
		[]string{asMergePatch}); code != http.StatusOK {
		t.Fatalf("%d %s", code, answer)
	}
	keys := allowances.All()
	slices.Sort(keys)
	for _, key := range keys {
		ways := append(waysOf()[key], deviceWays()[key]...)
		kinds := map[string]bool{}
		for _, w := range ways {
			kinds[w.kind] = true
			p.tries(t, s, key, w)
		}
		if !kinds[byAbsence] || !kinds[byField] {
			t.Errorf("%s: there is no row of absence, or of a field: %v", key, kinds)
		}
		if _, ok := templates()[key]; !ok && key != allowances.LoadBalancers && key != allowances.DeviceAdminAccess {
			t.Errorf("%s: there is no template", key)
		}
		p.disallow(t, s.name, key)
	}
	p.triesTemplates(t, s)
}

// tries waits until what is asked for has come of the allowance, which the API server
// learns of a moment later.
func (p *plane) tries(t *testing.T, s *space, key string, w way) {
	t.Helper()
	if w.value == "" {
		p.disallow(t, s.name, key)
	} else {
		p.allow(t, s.name, key, w.value)
	}
	var code int
	var answer string
	defer func() {
		if t.Failed() {
			t.Logf("%s=%q, %s, %s: %d %.500s", key, w.value, w.kind, w.name, code, answer)
		}
	}()
	eventually(t, key+", "+w.kind+", "+w.name, func(context.Context) (bool, error) {
		code, answer = do(t, s.config, http.MethodPost, w.path+asDryRun, w.body, nil)
		if w.refused != "" {
			return code == http.StatusForbidden && strings.Contains(answer, w.refused), nil
		}
		return code == http.StatusCreated && strings.Contains(answer, w.has) &&
			(w.hasNot == "" || !strings.Contains(without(answer), w.hasNot)), nil
	})
}

// without is an object without what says who wrote what.
func without(object string) string {
	var o map[string]any
	if json.Unmarshal([]byte(object), &o) != nil {
		return object
	}
	if meta, ok := o["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
	}
	out, err := json.Marshal(o)
	if err != nil {
		return object
	}
	return string(out)
}

// triesTemplates has controllers make pods of every kind of workload.
func (p *plane) triesTemplates(t *testing.T, s *space) {
	t.Helper()
	p.allow(t, s.name, allowances.StorageClasses, "fast")
	p.allow(t, s.name, allowances.DeviceClasses, "fast.example.com")
	p.holds(t, s, allowances.RuntimeClasses, "vm", func() bool {
		_, _, pod := s.makesPod(t, asDryRun, podBody("", ""))
		code, _ := do(t, s.config, http.MethodPost, inClaims+asDryRun,
			`{"metadata":{"name":"x"},`+claimSpec(`,"storageClassName":"slow"`)+`}`, nil)
		return classOf(pod) == "vm" && code == http.StatusForbidden
	})
	made := map[string]string{} // workload, allowance
	for key, past := range templates() {
		short := strings.TrimPrefix(key, "a4s.io/")
		if past.meta == "" {
			past.meta = typedAs("vm") // as the list wants it
		}
		template := func(name, spec string) string {
			return `"template":{"metadata":{` + past.meta + `"labels":{"a":"` + name + `"}},"spec":{` + spec +
				past.spec +
				`"containers":[{"name":"c","image":"i"` + past.container + `}]}}`
		}
		for kind, path := range map[string]string{
			"deployment": "/apis/apps/v1/namespaces/default/deployments",
			"rs":         "/apis/apps/v1/namespaces/default/replicasets",
			"rc":         "/api/v1/namespaces/default/replicationcontrollers",
			"sts":        "/apis/apps/v1/namespaces/default/statefulsets",
			"job":        "/apis/batch/v1/namespaces/default/jobs",
			"cron":       "/apis/batch/v1/namespaces/default/cronjobs",
			"template":   "/api/v1/namespaces/default/podtemplates",
		} {
			name := short + "-" + kind
			body := `"spec":{"selector":{"matchLabels":{"a":"` + name + `"}},"serviceName":"x",` + template(name,
				"") + `}`
			switch kind {
			case "deployment", "rs":
				body = strings.Replace(body, `"serviceName":"x",`, "", 1)
			case "rc":
				body = `"spec":{` + template(name, "") + `}`
			case "job":
				body = `"spec":{"backoffLimit":0,` + template(name, `"restartPolicy":"Never",`) + `}`
			case "cron":
				body = `"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"backoffLimit":0,` +
					template(name, `"restartPolicy":"Never",`) + `}}}`
			case "template":
				body = template(name, "")
			}
			post(t, s.config, path, `{"metadata":{"name":"`+name+`"},`+body+`}`)
			if kind != "template" { // nobody makes anything of it
				made[name] = key
			}
		}
	}
	// Each has come to a pod, or to a refusal.
	eventually(t, "every controller to have tried", func(ctx context.Context) (bool, error) {
		done := map[string]bool{}
		pods, err := s.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, pod := range pods.Items {
			done[pod.Labels["a"]] = true
			body, err := json.Marshal(pod)
			if err != nil {
				return false, err
			}
			if past := templates()[made[pod.Labels["a"]]]; past.hasNot != "" &&
				strings.Contains(without(string(body)), past.hasNot) || classOf(&pod) != "vm" {
				t.Fatalf("%s has made a pod of the class %q past its allowance: %s", pod.Labels["a"], classOf(&pod),
					body)
			}
		}
		events, err := s.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		missing := 0
		for name := range made {
			for _, e := range events.Items {
				if e.Reason == "FailedCreate" && strings.HasPrefix(e.InvolvedObject.Name, name) {
					done[name] = true
				}
			}
			if !done[name] {
				missing++
			}
		}
		return missing == 0, nil
	})
	claims, err := s.client.CoreV1().PersistentVolumeClaims("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(claims.Items) > 0 {
		t.Errorf("%d claims, %v", len(claims.Items), err)
	}
	if len(made) != 6*len(templates()) || workload.VM != "vm" {
		t.Errorf("%d workloads", len(made))
	}
}
