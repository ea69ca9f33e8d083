package spaces_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
)

// The attacker's own admission is asked about everybody but the attacker, who
// would shut themselves out.
const notOwn = `"matchConditions":[{"name":"others","expression":"!('system:masters' in request.userInfo.groups)"}]`

// hostile makes up a request of a kind that once took a cluster over or stopped
// it: each stands for a row of what an administrator of a tenant could do.
func (g *attacker) hostile() *attack {
	r := &attack{header: http.Header{}, method: http.MethodPost}
	r.header.Set("Content-Type", "application/json")
	path := ""
	switch g.rand.IntN(14) {
	case 0:
		path, r.body = g.mutatingPolicy()
	case 1:
		path, r.body = g.denyingPolicy()
	case 2:
		path, r.body = g.webhook()
	case 3:
		path, r.body = g.collidingDefinition()
	case 4:
		path, r.body = g.mount()
	case 5:
		path, r.body = g.endpoints()
	case 6:
		path = g.status(r)
	case 7:
		path = g.nested(r)
	case 8:
		path, r.body = g.big()
	case 9:
		r.method, r.body = pick(g, "GET", "POST"), ""
		path = pick(g, "/api/v1", "/api/v1", "/tenants/a/api/v1", "/api/v1/tenants/a", "/tenants/b/api/v1",
			"/api/v1/tenants/b", "/tenants/a//api/v1") +
			"/namespaces/" + pick(g, "default", "default", "default.b") + "/" +
			pick(g, "pods", "services") + "/" + pick(g, "web", "evil:80", "https:web:443", "steady-1:6443") +
			"/proxy" + pick(g, "", "", "?path=/x", "/", "//", "/metrics", "/..%2f..%2f", "/%2e%2e/x",
			"/a%0d%0aLocation:%20b?watch=1")
	case 10:
		path = g.devices(r)
	case 11:
		path = g.elsewhere(r)
	case 12:
		path = g.past(r)
	default:
		path, r.body = pick(g, g.owned, g.holding)()
	}
	// What is there is taken away again, so that the next of its name is made.
	if g.chance(15) && strings.Contains(path, "admissionregistration") {
		var named struct{ Metadata struct{ Name string } }
		if json.Unmarshal([]byte(r.body), &named) == nil {
			r.method, r.body, path = http.MethodDelete, "", path+"/"+named.Metadata.Name
		}
	}
	r.url = g.host + path
	return r
}

// mutatingPolicy changes what the system writes.
func (g *attacker) mutatingPolicy() (path, body string) {
	n := strconv.Itoa(g.rand.IntN(7))
	if g.chance(40) {
		return registration + "mutatingadmissionpolicybindings",
			`{"metadata":{"name":"m` + n + `"},"spec":{"policyName":"m` + n + `"}}`
	}
	attack := []struct{ group, resources, change string }{
		{"", `"pods/status"`,
			`Object{status: Object.status{podIP: '10.42.0.8', podIPs: [Object.status.podIPs{ip: '10.42.0.8'}]}}`},
		{"", `"services/status"`, `Object{status: Object.status{loadBalancer: Object.status.loadBalancer{ingress: ` +
			`[Object.status.loadBalancer.ingress{ip: '192.0.2.1'}]}}}`},
		{"", `"persistentvolumes"`, `Object{spec: Object.spec{local: Object.spec.local{path: '/'}}}`},
		{"", `"pods"`, `Object{spec: Object.spec{priority: 2000000000}}`},
		{"", `"pods"`, `Object{spec: Object.spec{nodeName: 'stolen'}}`},
		{"", `"pods"`, `Object{spec: Object.spec{nodeSelector: {'pool': 'other'}}}`},
		{"discovery.k8s.io", `"endpointslices"`,
			`Object{metadata: Object.metadata{labels: {'kubernetes.io/service-name': 'stolen'}}}`},
		{"coordination.k8s.io", `"leases"`, `Object{spec: Object.spec{holderIdentity: 'stolen'}}`},
	}[g.rand.IntN(8)]
	return registration + "mutatingadmissionpolicies",
		`{"metadata":{"name":"m` + n + `"},"spec":{` + notOwn + `,"failurePolicy":"` + pick(g, "Ignore", "Fail") +
			`","reinvocationPolicy":"` + pick(g, "Never", "IfNeeded") + `",
		"matchConstraints":{"resourceRules":[{"apiGroups":["` + attack.group + `"],"apiVersions":["*"],` +
			`"operations":["CREATE","UPDATE"],"resources":[` +
			attack.resources + `]}]},
		"mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":` + strconv.Quote(
			attack.change) + `}}]}}`
}

// denyingPolicy refuses what the system does.
func (g *attacker) denyingPolicy() (path, body string) {
	n := strconv.Itoa(g.rand.IntN(3))
	if g.chance(50) {
		return registration + "validatingadmissionpolicybindings",
			`{"metadata":{"name":"v` + n + `"},"spec":{"policyName":"v` + n + `","validationActions":["Deny"]}}`
	}
	return registration + "validatingadmissionpolicies",
		`{"metadata":{"name":"v` + n + `"},"spec":{` + notOwn + `,"failurePolicy":"Fail",
		"matchConstraints":{"resourceRules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["` + pick(g, "CREATE",
			"UPDATE",
			"DELETE",
			"*") +
			`"],"resources":["*/*"]}]},
		"validations":[{"expression":"false"}]}}`
}

// webhook is asked about everything and never answers, or is somewhere that
// the server should not connect to.
func (g *attacker) webhook() (path, body string) {
	kind := pick(g, "mutating", "validating")
	at := pick(g, `"url":"https://127.0.0.1:6443/"`, `"url":"https://192.0.2.1:6443/"`, `"url":"https://10.43.0.1/"`,
		`"url":"https://169.254.169.254/"`,
		`"url":"https://10.42.0.8/"`, `"url":"https://198.51.100.7/"`,
		`"service":{"name":"web","namespace":"default.b"}`, `"service":{"name":"kubernetes","namespace":"default"}`)
	return registration + kind + "webhookconfigurations", `{"metadata":{"name":"h` + strconv.Itoa(g.rand.IntN(4)) +
		`"},"webhooks":[{"name":"x.example.com","clientConfig":{` + at + `},` + notOwn + `,
		"rules":[{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*/*"]}],"sideEffects":"None","admissionReviewVersions":["v1"],"timeoutSeconds":30,"failurePolicy":"` + pick(g, "Fail", "Ignore") + `"}]}`
}

// collidingDefinition takes the kind of another's resource for a resource of its
// own, or goes into a group of Kubernetes.
func (g *attacker) collidingDefinition() (path, body string) {
	group := pick(g, isolationGroup, isolationGroup, isolationGroup, "rbac.authorization.k8s.io", "apps",
		"networking.k8s.io", "metrics.k8s.io")
	kind := pick(g, "Foo", "Bar", "Other", "Private", "Shared", "ClusterRole", "NetworkPolicy", "Deployment")
	plural := pick(g, "foos", "bars", "others", "zbars", "zprivates", "abars", "zclusterroles", "znetworkpolicies")
	return "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"` + plural + "." + group +
		`","annotations":{"api-approved.kubernetes.io":"https://github.com/kubernetes/kubernetes/pull/1"}},
		"spec":{"group":"` + group + `","scope":"` + pick(g, "Namespaced", "Cluster") + `","names":{"plural":"` +
		plural + `","kind":"` + kind + `"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`
}

// mount wants what is on a node, or on another's disk.
func (g *attacker) mount() (path, body string) {
	source := pick(g, `"fc":{"wwids":["0123456789"]}`, `"fc":{"targetWWNs":["50060e801049cfd1"],"lun":0}`,
		`"iscsi":{"targetPortal":"192.0.2.1","iqn":"iqn.2001-04.com.example:x","lun":0}`,
		`"flexVolume":{"driver":"example.com/x"}`, `"nfs":{"server":"192.0.2.1","path":"/"}`,
		`"hostPath":{"path":"/"}`, `"csi":{"driver":"example.com","volumeHandle":"theirs"}`, `"local":{"path":"/"}`)
	if g.chance(50) {
		return "/api/v1/persistentvolumes", `{"metadata":{"name":"n` + strconv.Itoa(g.rand.IntN(50)) +
			`","annotations":{"pv.kubernetes.io/provisioned-by":"a4s.io/local-path"}},` +
			`"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"storageClassName":"` +
			pick(g, "", "local-path") + `",` + source + `}}`
	}
	spec := pick(g, `"volumes":[{"name":"v",`+source+`}],`, `"nodeName":"stolen",`, `"priority":2000000000,`,
		`"nodeSelector":{"pool":"other"},`,
		`"priorityClassName":"system-node-critical",`, `"hostNetwork":true,`, `"tolerations":[{"operator":"Exists"}],`)
	return "/api/v1/namespaces/default/pods",
		`{"metadata":{"generateName":"m-"},"spec":{` + spec + `"containers":[{"name":"c","image":"i"}]}}`
}

// endpoints lead to others.
func (g *attacker) endpoints() (path, body string) {
	ip := pick(g, "10.42.0.8", "10.42.0.7", "10.43.0.1", "127.0.0.1", "192.0.2.1", "169.254.169.254")
	if g.chance(50) {
		return "/api/v1/namespaces/default/endpoints",
			`{"metadata":{"name":"n` + strconv.Itoa(g.rand.IntN(20)) + `"},"subsets":[{"addresses":[{"ip":"` + ip +
				`","targetRef":{"kind":"Pod","name":"web","namespace":"default.b"}}],"ports":[{"port":80}]}]}`
	}
	return "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
		`{"metadata":{"name":"n` + strconv.Itoa(g.rand.IntN(20)) + `","labels":{"kubernetes.io/service-name":"web",` +
			`"endpointslice.kubernetes.io/managed-by":"` + pick(g, "endpointslice-controller.k8s.io", "me") +
			`"}},"addressType":"IPv4","endpoints":[{"addresses":["` + ip + `"]}],"ports":[{"port":80}]}`
}

// status writes what the network believes.
func (g *attacker) status(r *attack) (path string) {
	r.method = http.MethodPatch
	r.header.Set("Content-Type", "application/merge-patch+json")
	r.body = pick(g, `{"status":{"podIP":"10.42.0.8","podIPs":[{"ip":"10.42.0.8"}],"phase":"Running"}}`,
		`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`, `{"status":{"phase":"Bound"}}`,
		`{"status":{"hostIP":"127.0.0.1"}}`, `{"spec":{"priority":7},"status":{}}`)
	return pick(g, "/api/v1/namespaces/default/", "/api/v1/namespaces/default/", "/api/v1/namespaces/default.b/",
		"/api/v1/") + pick(g, "pods", "services", "persistentvolumes", "nodes", "persistentvolumeclaims") + "/" +
		g.name() + "/" + pick(g, "status", "status", "ephemeralcontainers", "resize", "binding")
}

// nested is a small body that is much work to read.
func (g *attacker) nested(r *attack) (path string) {
	depth := pick(g, 5, 30, 60)
	path = pick(g, "/api/v1/namespaces/default/configmaps", "/apis/apps/v1/namespaces/default/deployments",
		"/apis/"+isolationGroup+"/v1/namespaces/default/foos", "/api/v1/namespaces/default.b/configmaps")
	switch g.rand.IntN(5) {
	case 0:
		r.body = strings.Repeat(`{"items":[{"rows":[{"object":`, depth) + "{}" +
			strings.Repeat(`}],"kind":"Table","apiVersion":"meta.k8s.io/v1"}],"kind":"List","apiVersion":"v1"}`, depth)
	case 1:
		r.body = strings.Repeat(`{"rows":[{"object":`, depth) + "{}" +
			strings.Repeat(`}],"kind":"Table","apiVersion":"meta.k8s.io/v1"}`, depth)
	case 2:
		r.body = strings.Repeat("[", 50*depth)
		r.header.Set("Content-Type", "application/yaml")
	case 3:
		r.method, path = http.MethodPatch, path+"/web"
		r.header.Set("Content-Type", "application/json-patch+json")
		r.body = `[{"op":"add","path":"` + strings.Repeat("/x", 1000*depth) + `","value":{}}]`
	default:
		r.body = "{" + strings.Repeat(`"metadata":{`, depth) + strings.Repeat("}", depth) + "}"
	}
	return path
}

// big fills the datastore. There are few names, so that it is not the machine of
// the test that is filled.
func (g *attacker) big() (path, body string) {
	name, word := "big"+strconv.Itoa(g.rand.IntN(8)), strings.Repeat("x", pick(g, 1000, 200_000))
	if g.chance(50) {
		return "/apis/coordination.k8s.io/v1/namespaces/default/leases",
			`{"metadata":{"name":"` + name + `","annotations":{"x":"` + word + `"}}}`
	}
	return "/api/v1/namespaces/default/events",
		`{"metadata":{"name":"` + name + `"},"involvedObject":{"namespace":"default"},"message":"` +
			word[:min(len(word), 1024)] + `","metadata2":"` + word + `"}`
}

// owned names owners that are not the attacker's.
func (g *attacker) owned() (path, body string) {
	owner := pick(g, `"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","name":"view"`,
		`"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","name":"local-path"`,
		`"apiVersion":"v1","kind":"Node","name":"n"`, `"apiVersion":"`+isolationGroup+`/v1","kind":"Bar","name":"web"`,
		`"apiVersion":"v1","kind":"Namespace","name":"default.b"`)
	return "/api/v1/namespaces/default/configmaps", `{"metadata":{"generateName":"o-","ownerReferences":[{` + owner +
		`,"uid":"` + pick(g, "1", "2") + `","blockOwnerDeletion":true}]}}`
}

// planted is what must be the same after the attack: objects of the tenant b and
// of the system, by their paths, without what the system itself keeps up.
func planted(t *testing.T, p *plane, word string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, path := range []string{
		"/api/v1/tenants/b/namespaces/default/%s/web",
		"/api/v1/tenants/" + otherTeam + "/namespaces/default/%s/web",
		"/api/v1/tenants/system/namespaces/default/%s/web",
		"/api/v1/tenants/system/namespaces/a/%s/web",
	} {
		for _, resource := range []string{"configmaps", "services", "events"} {
			found[fmt.Sprintf(path, resource)] = ""
		}
	}
	for _, path := range []string{
		"/api/v1/tenants/b/namespaces/default/secrets/x-" + word,
		"/api/v1/tenants/system/namespaces/kube-system/secrets/x-" + word,
		"/api/v1/tenants/b/persistentvolumes/web-default",
		"/apis/rbac.authorization.k8s.io/v1/tenants/b/clusterroles/web-default",
		"/apis/rbac.authorization.k8s.io/v1/tenants/b/namespaces/default/roles/web",
		"/apis/apps/v1/tenants/b/namespaces/default/deployments/web",
		"/apis/apps/v1/tenants/b/namespaces/default/statefulsets/web",
		"/apis/" + isolationGroup + "/v1/tenants/b/namespaces/default/bars/web",
		"/apis/" + isolationGroup + "/v1/tenants/b/foos/web",
		"/apis/" + isolationGroup + "/v1/tenants/system/namespaces/default/privates/web",
		"/api/v1/tenants/b/namespaces/default/configmaps/owned",
		"/apis/resource.k8s.io/v1/tenants/b/namespaces/default/resourceclaims/web",
		"/api/v1/tenants/system/namespaces/default/configmaps/owned",
		"/apis/apiextensions.k8s.io/v1/tenants/b/customresourcedefinitions/bars." + isolationGroup,
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin", "/api/v1/namespaces/kube-system",
	} {
		found[path] = ""
	}
	for path := range found {
		code, body := get(t, p.Admin, path)
		var object map[string]any
		if code != http.StatusOK || json.Unmarshal([]byte(body), &object) != nil {
			t.Errorf("%s: %d %.300s", path, code, body)
			continue
		}
		unstructured.RemoveNestedField(object, "status")
		for _, field := range []string{"resourceVersion", "managedFields", "generation"} {
			unstructured.RemoveNestedField(object, "metadata", field)
		}
		// it is one
		if annotations, ok, _ := unstructured.NestedMap(object, "metadata", "annotations"); ok { //nolint:errcheck
			delete(annotations, "deployment.kubernetes.io/revision")
			_ = unstructured.SetNestedMap(object, annotations, "metadata", "annotations")
		}
		kept, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		found[path] = string(kept)
	}
	return found
}

// plantOwned makes objects that custom resources of b and of the system own: they
// go with their owner only.
func plantOwned(t *testing.T, p *plane) {
	t.Helper()
	for _, of := range []struct{ tenant, resource, kind string }{{"b", "bars", "Bar"},
		{"system", "privates", "Private"}} {
		code, body := get(t, p.Admin,
			"/apis/"+isolationGroup+"/v1/tenants/"+of.tenant+"/namespaces/default/"+of.resource+"/web")
		var owner metav1.PartialObjectMetadata
		if err := json.Unmarshal([]byte(body), &owner); err != nil || code != http.StatusOK {
			t.Fatalf("the owner in %s: %d, %v", of.tenant, code, err)
		}
		post(t, p.Admin, "/api/v1/tenants/"+of.tenant+"/namespaces/default/configmaps",
			`{"metadata":{"name":"owned","ownerReferences":[{"apiVersion":"`+isolationGroup+`/v1","kind":"`+of.kind+
				`","name":"web","uid":"`+string(owner.UID)+`"}]}}`)
	}
}

// steady does what the system and the tenant b do all the time, until done: it
// has to work, and what the system writes into the attacker's space has to stay as
// it was written.
func steady(ctx context.Context, t *testing.T, p *plane, b *space, done <-chan struct{}) {
	t.Helper()
	// As the parts of the server do it, to which a short path is the whole cluster.
	system := p.as(t, "system", p.user(t, "system:a4s-supervisor", []string{"system:masters"}, nil)).client
	pace := time.NewTicker(5 * time.Second)
	defer pace.Stop()
	for n, slow := 0, 0; ; n++ {
		if n > 0 {
			select {
			case <-pace.C:
			case <-done:
			}
		}
		select {
		case <-done:
			t.Logf("the system and the other tenant did what they do %d times", n-slow)
			if n-slow < 3 {
				t.Errorf("that is too few: the test does not test")
			}
			return
		default:
		}
		round, cancel := context.WithTimeout(ctx, deadline)
		begun := time.Now()
		if err := steadyRound(round, system.CoreV1(), p, b, "steady-"+strconv.Itoa(n)); timedOut(err) {
			slow++
			t.Logf("round %d, after %s: %v", n, time.Since(begun).Round(time.Millisecond), err)
		} else if err != nil {
			t.Errorf("round %d, after %s: %v", n, time.Since(begun).Round(time.Millisecond), err)
		}
		cancel()
	}
}

// steadyRound is one round.
func steadyRound(ctx context.Context, core coreclient.CoreV1Interface, p *plane, b *space, name string) error {
	// In the attacker's space what was written may be gone, or be forbidden by a
	// quota of theirs; it is not changed.
	theirs := func(err error) bool {
		return err != nil && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) && ctx.Err() == nil
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := core.Pods("default.a").Create(ctx, pod, metav1.CreateOptions{}); err != nil && !theirs(err) {
		return fmt.Errorf("making a pod in the attacker's space: %w", err)
	}
	status := []byte(`{"status":{"podIP":"10.42.0.7","podIPs":[{"ip":"10.42.0.7"}]}}`)
	switch got, err := core.Pods("default.a").Patch(ctx, name, types.MergePatchType, status,
		metav1.PatchOptions{}, "status"); {
	case err == nil && got.Status.PodIP != "10.42.0.7":
		return fmt.Errorf("the system wrote the address 10.42.0.7 and got %s", got.Status.PodIP)
	case err == nil && got.Spec.Priority != nil && *got.Spec.Priority != 0:
		return fmt.Errorf("a pod of the attacker has the priority %d", *got.Spec.Priority)
	case err != nil && !theirs(err):
		return fmt.Errorf("writing the status of a pod: %w", err)
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
		Name:        name + ".a.tenant",
		Annotations: map[string]string{"note": "provisioned"},
	}, Spec: corev1.PersistentVolumeSpec{
		Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			NFS: &corev1.NFSVolumeSource{Server: "192.0.2.7", Path: "/steady"},
		},
	}}
	if got, err := core.PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err == nil &&
		(got.Spec.NFS == nil || got.Spec.NFS.Path != "/steady" || got.Spec.Local != nil) {
		return fmt.Errorf("the system made a volume and got %+v", got.Spec.PersistentVolumeSource)
	}
	for _, gone := range []error{
		core.Pods("default.a").Delete(ctx, name, *metav1.NewDeleteOptions(0)),
		core.PersistentVolumes().Delete(ctx, name+".a.tenant", metav1.DeleteOptions{}),
	} {
		if gone != nil && !apierrors.IsNotFound(gone) {
			return fmt.Errorf("the system deletes in the attacker's space: %w", gone)
		}
	}
	// The other tenant's life goes on: a namespace gets its service account, a
	// deployment its pods.
	own := b.client.CoreV1()
	if _, err := own.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("the other tenant makes a namespace: %w", err)
	}
	d := deployment(name) // that of the last round may still be going
	d.Spec.Replicas = new(int32(1))
	if _, err := b.client.AppsV1().Deployments("default").Create(ctx, d, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("the other tenant makes a deployment: %w", err)
	}
	return await(ctx, "pods and service accounts of the other tenant", func() (bool, error) {
		pods, err := own.Pods("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		made := 0
		for _, pod := range pods.Items {
			if strings.HasPrefix(pod.Name, name+"-") && pod.DeletionTimestamp == nil {
				made++
			}
		}
		if made == 0 {
			return false, nil
		}
		_, err = own.ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if err := b.client.AppsV1().Deployments("default").Delete(ctx, name,
			metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}); err != nil {
			return false, err
		}
		return true, own.Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// await asks until it is so.
func await(ctx context.Context, what string, check func() (bool, error)) error {
	for ticks := time.Tick(50 * time.Millisecond); ; {
		done, err := check()
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if done {
			return nil
		}
		select {
		case <-ticks:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		}
	}
}
