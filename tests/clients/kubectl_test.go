package clients

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestKubectl works in a tenant with kubectl, in both forms of address. Every
// output of every command is searched for what the tenant must not see.
func TestKubectl(t *testing.T) {
	t.Parallel()
	for name, kubeconfig := range map[string]string{"prefixed": acme.prefixed, "by-identity": acme.byIdentity} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := "bazaar-" + name
			plantCanaries(t, namespace)
			k := newKubectl(t, kubeconfig, namespace)
			k.ok(t, "create namespace "+namespace)
			// In this order: each part uses what those before it made.
			t.Run("discovery", k.discovery)
			t.Run("create", func(t *testing.T) { k.create(t, namespace) })
			t.Run("get", func(t *testing.T) { k.get(t, namespace) })
			t.Run("describe", func(t *testing.T) { k.describe(t, namespace) })
			t.Run("change", func(t *testing.T) { k.change(t, namespace) })
			t.Run("apply", func(t *testing.T) { k.apply(t, namespace) })
			t.Run("rollout", k.rollout)
			t.Run("watch", func(t *testing.T) { k.watches(t, namespace) })
			t.Run("custom", func(t *testing.T) { k.custom(t, namespace) })
			t.Run("auth", func(t *testing.T) { k.auth(t, namespace) })
			t.Run("delete", func(t *testing.T) { k.delete(t, namespace) })
		})
	}
}

// plantCanaries gives the other tenant a namespace of the same name, with
// objects of the same and of other names.
func plantCanaries(t *testing.T, namespace string) {
	t.Helper()
	kube := globex.client(t)
	about := map[string]string{"example.com/note": canary}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Annotations: about}}
	if _, err := kube.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"settings", canary} {
		for _, in := range []string{namespace, "default"} {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + namespace, Annotations: about,
				Labels: map[string]string{"tier": "one"}}, Data: about}
			if in == namespace {
				cm.Name = name
			}
			cm.Data = map[string]string{"color": canary}
			if _, err := kube.CoreV1().ConfigMaps(in).Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	createDeployment(t, kube, namespace, canary)
}

func (k *kubectl) discovery(t *testing.T) {
	resources := k.ok(t, "api-resources --no-headers -o name")
	match(t, "api-resources", resources, []string{`^deployments\.apps$`, `^configmaps$`, `^clusterroles\.rbac`,
		`^leases\.coord`, `^storageclasses\.storage`, `^customresourcedefinitions\.apiext`})
	for _, hidden := range []string{"tenantplacements", "tenants"} {
		if misses(resources, []string{"^" + hidden + "$"}) == "" {
			t.Errorf("api-resources shows %s", hidden)
		}
	}
	k.shows(t, "api-versions", `^apps/v1$`, `^v1$`)
	k.shows(t, "version", `Server Version: v1\.37\.`)
	k.shows(t, "explain deployment.spec", `GROUP: +apps`, `^  replicas\s+<integer>`, `^  template\s+<PodTemplateSpec>`)
	k.shows(t, "explain pods.spec.containers --recursive", `image\s+<string>`)
	for _, kind := range []string{"tenantplacements", "tenants"} {
		k.fails(t, "explain "+kind, `the server doesn't have a resource type`)
		k.fails(t, "get "+kind, `the server doesn't have a resource type "`+kind+`"`)
	}
	k.fails(t, "get --raw /api/v1/tenantplacements", `Forbidden`)
	k.shows(t, "get --raw /api/v1/nodes", `"items": ?\[\]`)
	// What the space has not is a kind nevertheless, by its short name too.
	for _, kind := range []string{"nodes", "no", "ds", "csr", "ip"} {
		k.shows(t, "get "+kind, `No resources found`)
	}
	k.shows(t, "create clusterrole all-kinds --dry-run=server -o yaml --verb=get,list "+
		"--resource=nodes,no,daemonsets.apps,csr,ipaddresses", `^  - nodes$`, `^  - daemonsets$`,
		`^  - certificatesigningrequests$`, `^  - ipaddresses$`)
	const daemonSet = "-f testdata/kubectl/daemonset.json"
	k.fails(t, "create "+daemonSet, `[Ff]orbidden.*a DaemonSet runs on every node`)
	k.fails(t, "create --raw /apis/apps/v1/namespaces/default/daemonsets "+daemonSet,
		`Forbidden.*a DaemonSet runs on every node`)
}

// custom defines a resource, as the files of operators do, and uses it.
func (k *kubectl) custom(t *testing.T, namespace string) {
	group := namespace + ".example.com"
	definition := fmt.Sprintf(`{
  "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gadgets.%[1]s"},
  "spec": {
    "group": %[1]q, "scope": "Namespaced",
    "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "shortNames": ["gd-%[2]s"], "categories": ["things-%[2]s"]},
    "versions": [{
      "name": "v1", "served": true, "storage": true, "subresources": {"scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
      "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
      "schema": {"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3, "description": "How large it is."}},
          "x-kubernetes-validations": [{"rule": "self.size < 10", "message": "too large"}]},
        "status": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}
    }]
  }
}`, group, namespace)
	gadget := func(spec string) string {
		return fmt.Sprintf(`{"apiVersion": "%s/v1", "kind": "Gadget", "metadata": {"name": "one"}, "spec": {%s}}`,
			group, spec)
	}
	match(t, "definition", k.in(t, definition, "apply -f -"),
		[]string{`^customresourcedefinition.apiextensions.k8s.io/gadgets\.` + group + ` created$`})
	k.ok(t, "wait --for=condition=Established --timeout=1m crd/gadgets."+group)
	k.eventuallyShows(t, "explain gadgets.spec --api-version="+group+"/v1", `^  size\s+<integer>`, `How large it is\.`)
	match(t, "gadget", k.in(t, gadget(""), "apply --server-side -f -"),
		[]string{`^gadget\.` + group + `/one serverside-applied$`})
	for _, kind := range []string{"gadgets." + group, "gd-" + namespace, "things-" + namespace} {
		k.shows(t, "get "+kind, `^NAME +SIZE$`, `^one +3$`)
	}
	if out, err := k.run(t, gadget(`"size": 12`), "apply --server-side -f -"); err == nil ||
		!strings.Contains(out, "too large") {
		t.Errorf("what the rule of a definition refuses: %v, %s", err, out)
	}
	k.shows(t, "scale gadgets."+group+" one --replicas=5", `scaled$`)
	k.shows(t, "get gadgets."+group+" one -o jsonpath={.spec.size}", `^5$`)
	k.shows(t, "get crds", `^gadgets\.`+group+` `)
	k.shows(t, "delete crd gadgets."+group, `deleted`)
	k.fails(t, "get gadgets."+group, `the server doesn't have a resource type|could not find the requested resource`)
}

func (k *kubectl) create(t *testing.T, namespace string) {
	for args, want := range map[string]string{
		"configmap settings --from-literal=color=green":      "configmap/settings",
		"secret generic password --from-literal=word=secret": "secret/password",
		"serviceaccount builder":                             "serviceaccount/builder",
		"role reader --verb=get,list,watch " +
			"--resource=pods,configmaps": "role.rbac.authorization.k8s.io/reader",
		"rolebinding reader --role=reader " +
			"--serviceaccount=NS:builder": "rolebinding.rbac.authorization.k8s.io/reader",
		"clusterrole NS-names --verb=get,list " +
			"--resource=namespaces": "clusterrole.rbac.authorization.k8s.io/NS-names",
		"clusterrolebinding NS-names --clusterrole=NS-names " +
			"--serviceaccount=NS:builder": "clusterrolebinding.rbac.authorization.k8s.io/NS-names",
		"clusterrolebinding NS-view --clusterrole=view " +
			"--user=viewer": "clusterrolebinding.rbac.authorization.k8s.io/NS-view",
		"deployment web --image=docker.io/a4s/none:1 --replicas=2 --port=80": "deployment.apps/web",
		"job once --image=docker.io/a4s/none:1":                              "job.batch/once",
		"cronjob nightly --image=docker.io/a4s/none:1 --schedule=@daily":     "cronjob.batch/nightly",
		"quota limits --hard=pods=50,configmaps=50":                          "resourcequota/limits",
		"poddisruptionbudget web --selector=app=web " +
			"--min-available=1": "poddisruptionbudget.policy/web",
		"ingress web --rule=web.example.com/=web:80 " +
			"--class=none": "ingress.networking.k8s.io/web",
	} {
		k.shows(t, "create "+strings.ReplaceAll(args, "NS", namespace),
			`^`+strings.ReplaceAll(want, "NS", namespace)+` created$`)
	}
	k.shows(t, "run box --image=docker.io/a4s/none:1 --labels=app=box", `^pod/box created$`)
	k.shows(t, "expose deployment web --port=80 --target-port=8080", `^service/web exposed$`)
	// It leaves alone what is scaled to 5 below, whenever it looks: nothing says how busy the pods are.
	k.shows(t, "autoscale deployment web --min=1 --max=9 --cpu=80%",
		`^horizontalpodautoscaler.autoscaling/web autoscaled$`)
	k.shows(t, "create configmap dry --dry-run=server -o yaml", `^  namespace: `+namespace+`$`)
	k.fails(t, "get configmap dry", `configmaps "dry" not found`)
	k.fails(t, "create configmap settings", `configmaps "settings" already exists`)
	k.fails(t, "create configmap x --namespace=nowhere", `namespaces "nowhere" not found`)
	k.fails(t, "create deployment Web --image=x", `"Web": a lowercase RFC 1123`)
}

func (k *kubectl) get(t *testing.T, namespace string) {
	k.shows(t, "get configmaps", `^settings +1 +\d`)
	k.shows(t, "get deployments -o wide", `^web +0/2 .* docker.io/a4s/none:1 +app=web$`)
	k.shows(t, "get namespaces", `^default +Active`, `^kube-system +Active`, `^`+namespace+` +Active`)
	k.shows(t, "get configmaps -A", `^kube-system +kube-root-ca.crt`, `^default +kube-root-ca.crt`,
		`^`+namespace+` +settings`)
	k.shows(t, "get configmaps -A -o custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name",
		`^`+namespace+` +settings$`)
	k.shows(t, "get configmap settings -o yaml", `^  name: settings$`,
		`^  namespace: `+namespace+`$`, `^  color: green$`)
	k.shows(t, "get configmap settings -o json --show-managed-fields", `"namespace": "`+namespace+`"`,
		`"manager": "kubectl-create"`)
	k.shows(t, "get rolebinding,clusterrolebinding,serviceaccount -o yaml", `namespace: `+namespace+`$`, `name: view$`,
		`name: `+namespace+`-names$`)
	k.shows(t, "get secrets,services,deployments,replicasets,statefulsets,jobs,cronjobs,hpa,pdb,ingresses,quota,"+
		"roles,events -o wide", `service/web `, `job.batch/once `)
	k.shows(t, "get clusterroles", `^`+namespace+`-names `)
	k.shows(t, "get clusterrole view", `^view `)
	k.shows(t, "get all -A --show-labels", namespace+` +deployment.apps/web `, namespace+` +service/web `)
	k.shows(t, "get configmaps --field-selector=metadata.name=settings,metadata.namespace="+namespace+" -o name",
		`^configmap/settings$`)
	k.shows(t, "get configmaps -A --field-selector=metadata.namespace="+namespace+" -o name", `^configmap/settings$`)
	k.shows(t, "get --raw /api/v1/namespaces/"+namespace, `"name":"`+namespace+`"`)
	k.shows(t, "get --raw /api/v1/configmaps?limit=500", `"name":"settings","namespace":"`+namespace+`"`)
	// One page for each object.
	k.shows(t, "get configmaps -A --chunk-size=1", `^kube-system +kube-root-ca.crt`, `^`+namespace+` +settings`)
	k.shows(t, "get pods --sort-by=.metadata.name -l app=box -o jsonpath={.items[*].metadata.name}", `^box$`)
	k.fails(t, "get configmap missing", `configmaps "missing" not found`)
	k.fails(t, "get configmap "+canaryName(), `not found`)
	for _, composite := range []string{"default." + acme.name, "default." + globex.name} {
		// Not run, as kubectl repeats the name.
		if out, _ := k.command(t.Context(), "get", "configmaps", "-o", "name", "--namespace", composite).
			CombinedOutput(); strings.Contains(string(out), "configmap/") {
			t.Errorf("the namespace %s has %s", composite, out)
		}
	}
}

// canaryName names an object of the other tenant without spelling it in a
// command, which a message repeats.
func canaryName() string { return canary[:len(canary)-1] }

func (k *kubectl) describe(t *testing.T, namespace string) {
	k.eventuallyShows(t, "describe deployment web", `^Name: +web$`, `^Namespace: +`+namespace+`$`, `ScalingReplicaSet`,
		`^NewReplicaSet: +web-`)
	k.eventuallyShows(t, "describe pod box", `^Namespace: +`+namespace+`$`,
		`Warning +FailedScheduling .* no nodes available`)
	k.eventuallyShows(t, "events", `FailedScheduling +Pod/box`, `ScalingReplicaSet +Deployment/web`)
	k.eventuallyShows(t, "describe quota limits", `^configmaps +\d +50$`, `^pods +4 +50$`)
	k.shows(t, "describe namespace "+namespace, `^Name: +`+namespace+`$`, `Name: +limits`)
	k.shows(t, "describe configmap settings", `^color:\n----\ngreen$`)
	k.shows(t, "describe rolebinding reader", `ServiceAccount +builder +`+namespace)
	k.shows(t, "describe clusterrolebinding "+namespace+"-view", `^  Kind: +ClusterRole$`,
		`^  Name: +view$`, `User +viewer`)
	k.shows(t, "describe service web", `^Selector: +app=web$`)
	k.shows(t, "describe serviceaccount builder", `^Namespace: +`+namespace+`$`)
	k.shows(t, "describe hpa web", `^Reference: +Deployment/web$`)
	k.shows(t, "describe ingress web", `web.example.com`)
	k.eventuallyShows(t, "get endpointslices -l kubernetes.io/service-name=web -o name",
		`^endpointslice.discovery.k8s.io/web-`)
}

func (k *kubectl) change(t *testing.T, namespace string) {
	k.shows(t, "label configmap settings tier=one", `labeled`)
	k.shows(t, "annotate configmap settings example.com/note=mine", `annotated`)
	k.shows(t, "get configmaps -A -l tier=one --show-labels", `settings .* tier=one$`)
	for kind, patch := range map[string]string{
		"strategic": `{"data":{"strategic":"yes"}}`,
		"merge":     `{"data":{"merge":"yes","color":null}}`,
		"json": `[{"op":"test","path":"/metadata/namespace","value":"` + namespace +
			`"},{"op":"add","path":"/data/json","value":"yes"}]`,
	} {
		match(t, "patch --type="+kind, k.ok(t, "patch configmap settings --type="+kind, "--patch="+patch),
			[]string{`patched$`})
		k.shows(t, "get configmap settings -o jsonpath={.data."+kind+"}", `^yes$`)
	}
	k.shows(t, "scale deployment web --replicas=4", `scaled`)
	k.shows(t, "wait deployment/web --for=jsonpath={.status.replicas}=4 --timeout=2m", `condition met`)
	k.shows(t, "patch deployment web --subresource=scale --type=merge --patch={\"spec\":{\"replicas\":4}}", `patched`)
	k.shows(t, "edit deployment web", `deployment.apps/web edited`)
	k.shows(t, "get deployment web -o jsonpath={.spec.replicas}", `^5$`)
	k.shows(t, "set env deployment/web COLOR=green", `env updated`)
	k.shows(t, "set serviceaccount deployment web builder", `serviceaccount updated`)
	k.shows(t, "set resources deployment web --requests=cpu=1m", `resource requirements updated`)
	got := k.ok(t, "get configmap settings -o yaml")
	match(t, "replace", k.in(t, strings.Replace(got, "merge: \"yes\"", "merge: replaced", 1), "replace -f -"),
		[]string{`configmap/settings replaced`})
	k.shows(t, "get configmap settings -o jsonpath={.data.merge}", `^replaced$`)
	k.shows(t, "label configmap settings tier-", `unlabeled`)
}

func (k *kubectl) apply(t *testing.T, namespace string) {
	const file = "testdata/kubectl/deployment.yaml"
	k.shows(t, "apply -f "+file, `^deployment.apps/applied created$`)
	k.shows(t, "apply -f "+file, `^deployment.apps/applied unchanged$`)
	if out := k.ok(t, "diff -f "+file); out != "" {
		t.Errorf("diff of what was applied:\n%s", out)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(data), "replicas: 1", "replicas: 2", 1)
	out, err := k.run(t, changed, "diff -f -")
	if err == nil {
		t.Error("diff of a change does not fail")
	}
	match(t, "diff", out, []string{`^-  replicas: 1$`, `^\+  replicas: 2$`})
	match(t, "apply", k.in(t, changed, "apply -f -"), []string{`^deployment.apps/applied configured$`})
	k.shows(t, "get deployment applied -o jsonpath={.spec.replicas}", `^2$`)
	k.shows(t, "apply view-last-applied deployment applied", `replicas: 2`)

	server := "apply --server-side --field-manager="
	match(t, server, k.in(t, strings.ReplaceAll(changed, "applied", "served"), server+"one -f -"),
		[]string{`^deployment.apps/served serverside-applied$`})
	other := strings.ReplaceAll(string(data), "applied", "served")
	out, err = k.run(t, other, server+"two -f -")
	if err == nil {
		t.Error("a second manager of a field is in no conflict")
	}
	match(t, "the conflict", out, []string{`conflict with "one".*\.spec\.replicas`})
	k.in(t, other, server+"two --force-conflicts -f -")
	k.shows(t, "get deployment served -o jsonpath={.spec.replicas}", `^1$`)
	k.shows(t, "get deployment served --show-managed-fields -o jsonpath={.metadata.managedFields[*].manager}",
		`\bone two\b`)

	owned, err := os.ReadFile("testdata/kubectl/owned.yaml")
	if err != nil {
		t.Fatal(err)
	}
	k.in(t, strings.ReplaceAll(string(owned), "NAMESPACE", namespace), "apply -f -")
	k.shows(t, "wait pvc/disk --for=jsonpath={.status.phase}=Bound --timeout=2m", `condition met`)
	k.shows(t, "get persistentvolumes", `^`+namespace+`-disk .* Bound +`+namespace+`/disk `)
	k.shows(t, "describe pv "+namespace+"-disk", `^Claim: +`+namespace+`/disk$`)
	k.shows(t, "wait pod/database-0 --for=create --timeout=2m", `condition met`)
	k.shows(t, "get pod database-0 -o yaml", `claimName: disk`, `kind: StatefulSet`)

	prune := "apply --prune --prune-allowlist=core/v1/ConfigMap -l pruned=yes -f -"
	one := k.ok(t, "create configmap pruned-one --dry-run=client -o yaml") + "  labels: {pruned: \"yes\"}\n"
	k.in(t, one, prune)
	match(t, "prune", k.in(t, strings.Replace(one, "pruned-one", "pruned-two", 1), prune),
		[]string{`pruned-two created`, `pruned-one pruned`})
}

func (k *kubectl) rollout(t *testing.T) {
	revision := func(n string) {
		t.Helper()
		k.shows(t, `wait deployment/applied --for=jsonpath={`+
			`.metadata.annotations.deployment\.kubernetes\.io/revision}=`+n+` --timeout=2m`, `condition met`)
	}
	revision("1")
	k.shows(t, "set image deployment/applied main=docker.io/a4s/none:2", `image updated`)
	revision("2")
	k.shows(t, "rollout history deployment/applied", `^1 `, `^2 `)
	k.shows(t, "rollout history deployment/applied --revision=2", `docker.io/a4s/none:2`)
	k.shows(t, "rollout undo deployment/applied", `rolled back`)
	revision("3")
	k.shows(t, "get deployment applied -o jsonpath={.spec.template.spec.containers[0].image}", `none:1$`)
	k.shows(t, "rollout pause deployment/applied", `paused`)
	k.shows(t, "rollout resume deployment/applied", `resumed`)
	k.shows(t, "rollout restart deployment/applied", `restarted`)
	revision("4")
	k.shows(t, "rollout status deployment/applied --watch=false", `Waiting for deployment "applied"`)
	k.shows(t, "get replicasets -l app=applied", `^applied-\S+ `)
}

func (k *kubectl) watches(t *testing.T, namespace string) {
	inNamespace := k.watch(t, "get configmaps --watch --output-watch-events")
	everywhere := k.watch(t, "get configmaps -A --watch -o "+
		"custom-columns=NS:.metadata.namespace,NAME:.metadata.name,TIER:.metadata.labels.tier")
	inNamespace.shows(t, `^ADDED +settings `)
	everywhere.shows(t, `^`+namespace+` +settings +`)
	other := globex.client(t)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: canary + "-late"}}
	if _, err := other.CoreV1().ConfigMaps(namespace).Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	k.ok(t, "create configmap late")
	k.ok(t, "label configmap late tier=two")
	k.ok(t, "delete configmap late")
	inNamespace.shows(t, `^ADDED +late `, `^MODIFIED +late `, `^DELETED +late `)
	everywhere.shows(t, `^`+namespace+` +late +<none>`, `^`+namespace+` +late +two`)
}

func (k *kubectl) auth(t *testing.T, namespace string) {
	account := "system:serviceaccount:" + namespace + ":builder"
	k.allow = "a4s.io/tenant"
	k.shows(t, "auth whoami", `^Username +admin$`)
	k.allow = ""
	k.shows(t, "auth can-i --list", `^\*\.\* +\[\] +\[\] +\[\*\]`)
	k.shows(t, "auth can-i create deployments.apps", `^yes$`)
	k.shows(t, "auth can-i list configmaps --as="+account, `^yes$`)
	k.shows(t, "auth can-i --list --as="+account, `^configmaps +\[\] +\[\] +\[get list watch\]`)
	k.fails(t, "auth can-i get secrets --as="+account, `^no$`)
	k.fails(t, "auth can-i list configmaps -A --as="+account, `^no$`)
	k.fails(t, "get --raw /api/v1/tenantplacements --as=admin --as-group=system:masters", `Forbidden`)

	token := strings.TrimSpace(k.ok(t, "create token builder --duration=1h"))
	checkToken(t, token, "system:serviceaccount:"+namespace+"."+acme.name+":builder")
	k.ok(t, "config set-credentials builder --token="+token)
	const as = " --user=builder"
	k.allow = "a4s.io/tenant"
	k.shows(t, "auth whoami"+as, `^Username +`+account+`$`, `system:serviceaccounts:`+namespace+`\b`)
	k.allow = ""
	k.shows(t, "get configmaps"+as, `^settings `)
	k.shows(t, "get namespaces"+as, `^`+namespace+` `)
	k.fails(t, "get secrets"+as,
		`User "`+account+`" cannot list resource "secrets" in API group "" in the namespace "`+namespace+`"`)
	k.fails(t, "get configmaps -A"+as, `at the cluster scope`)
	k.fails(t, "get configmaps --namespace=default"+as, `in the namespace "default"`)
	k.shows(t, "auth reconcile -f "+k.roleFile(t), `reader reconciled`)
}

// roleFile is a manifest for auth reconcile.
func (k *kubectl) roleFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(k.home, "role.yaml")
	if err := os.WriteFile(file, []byte(k.ok(t, "get role,rolebinding reader -o yaml")), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// checkToken looks into a token. Its subject is the one name that is not native:
// who trusts the issuer must be able to tell the tenants' accounts apart.
func checkToken(t *testing.T, token, subject string) {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("this is no token: %q", token)
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims struct {
		Subject string `json:"sub"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	if claims.Subject != subject {
		t.Errorf("the token is of %q, not of %q", claims.Subject, subject)
	}
}

func (k *kubectl) delete(t *testing.T, namespace string) {
	k.shows(t, "delete configmap settings", `configmap "settings" deleted`)
	k.fails(t, "get configmap settings", `configmaps "settings" not found`)
	k.shows(t, "delete deployment web --cascade=foreground --timeout=2m", `"web" deleted`)
	k.shows(t, "delete pods -l app=box --now", `"box" deleted`)
	k.shows(t, "wait pod/box --for=delete --timeout=2m")
	k.shows(t, "delete statefulset,deployments --all", `"database" deleted`, `"served" deleted`)
	// What has finalizers first, for which the namespace waits in long steps.
	k.shows(t, "delete job,cronjob --all --timeout=2m", `"once" deleted`, `"nightly" deleted`)
	k.shows(t, "delete persistentvolumeclaim disk --timeout=2m", `"disk" deleted`)
	k.shows(t, "delete clusterrole,clusterrolebinding "+namespace+"-names", `deleted`)
	k.shows(t, "delete namespace "+namespace+" --timeout=2m", `namespace "`+namespace+`" deleted`)
	k.fails(t, "get namespace "+namespace, `namespaces "`+namespace+`" not found`)
	k.eventuallyShows(t, "get persistentvolume "+namespace+"-disk", `Released`)
	k.shows(t, "delete persistentvolume "+namespace+"-disk", `deleted`)
	// All of that was nothing to the other tenant.
	if _, err := globex.client(t).CoreV1().ConfigMaps(namespace).
		Get(t.Context(), "settings", metav1.GetOptions{}); err != nil {
		t.Errorf("the other tenant's object: %v", err)
	}
}
