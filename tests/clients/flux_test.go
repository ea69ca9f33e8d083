package clients

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Where the controllers of Flux listen.
const (
	fluxNamespace = "flux-system"
	fluxArtifacts = "127.0.0.1:9790"
	// byFlux is the ConfigMap that Flux deploys.
	byFlux = "by-flux"
)

var (
	fluxSource = resource("source.toolkit.fluxcd.io", "v1", "gitrepositories")
	fluxApply  = resource("kustomize.toolkit.fluxcd.io", "v1", "kustomizations")
)

// refusedOfFlux are folders that a tenant could put into its repository, and what Flux says when
// it applies them with the role edit in the namespace apps.
var refusedOfFlux = map[string]struct{ manifest, says string }{
	"cluster-role": {says: "forbidden", manifest: `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: sneaked}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
`},
	"role-binding": {says: "forbidden", manifest: `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: sneaked, namespace: apps}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: flux}]
`},
	"other-namespace": {says: "forbidden", manifest: `
apiVersion: v1
kind: ConfigMap
metadata: {name: sneaked, namespace: default}
`},
	"namespace-of-another": {says: "apps.team-b", manifest: `
apiVersion: v1
kind: ConfigMap
metadata: {name: sneaked, namespace: apps.team-b}
`},
	"namespace": {says: "forbidden", manifest: `
apiVersion: v1
kind: Namespace
metadata: {name: sneaked}
`},
}

// misled names the tenant of another one, which counts for who sees all spaces: here the object is
// of the space that the request is sent to.
const misled = `
apiVersion: v1
kind: ConfigMap
metadata: {name: misled, namespace: apps, tenant: team-b}
`

func (g *gitops) testFlux(t *testing.T) {
	g.git = startGit(t)
	files := map[string]string{"deploy/deployed.yaml": revision(byFlux, "1"),
		"pruned/pruned.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: pruned, namespace: apps}\n"}
	for name, r := range refusedOfFlux {
		files[name+"/sneaked.yaml"] = r.manifest
	}
	files["other-tenant/misled.yaml"] = misled
	g.git.commit(t, "team-a", files)
	g.admin.ok(t, "create namespace "+fluxNamespace)
	env := []string{"RUNTIME_NAMESPACE=" + fluxNamespace}
	g.run(t, "the source-controller", env, filepath.Join(g.dir, "source-controller"), "--storage-path="+t.TempDir(),
		"--storage-addr="+fluxArtifacts, "--storage-adv-addr="+fluxArtifacts, "--metrics-addr=127.0.0.1:0",
		"--health-addr=127.0.0.1:0")
	g.run(t, "the kustomize-controller", env, filepath.Join(g.dir, "kustomize-controller"),
		"--metrics-addr=127.0.0.1:0", "--health-addr=127.0.0.1:0")

	g.admin.in(t, strings.Join(g.documented(t, "Flux", "yaml"), "\n---\n"), "apply -f -")
	g.reconciled(t, "team-a", metav1.ConditionTrue, "Applied revision: main@")
	landed(t, g.a, "apps", byFlux, "1")
	g.only(t, byFlux, "apps.team-a")

	t.Run("what its role does not allow", g.testFluxRefused)
	t.Run("what it deletes", func(t *testing.T) {
		g.kustomization(t, "pruned")
		g.reconciled(t, "pruned", metav1.ConditionTrue, "")
		g.only(t, "pruned", "apps.team-a")
		g.admin.ok(t, "delete kustomization pruned -n "+fluxNamespace)
		g.only(t, "pruned")
	})
	t.Run("renewed credentials", func(t *testing.T) {
		g.git.commit(t, "team-a", map[string]string{"deploy/deployed.yaml": revision(byFlux, "2")})
		g.renew(t, "flux-team-a", fluxNamespace, "team-a")
		g.fetched(t)
		landed(t, g.a, "apps", byFlux, "2")
		g.reconciled(t, "team-a", metav1.ConditionTrue, "Applied revision: main@")
	})
	t.Run("the access is taken away", g.testFluxEnds)
}

// kustomization applies a folder of the repository of team-a, with the namespaces of its
// manifests.
func (g *gitops) kustomization(t *testing.T, folder string) {
	t.Helper()
	g.admin.in(t, `
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: `+folder+`, namespace: `+fluxNamespace+`}
spec:
  interval: 10m
  path: ./`+folder+`
  prune: true
  sourceRef: {kind: GitRepository, name: team-a}
  kubeConfig: {secretRef: {name: team-a}}
`, "apply -f -")
}

// askOfFlux has a controller of Flux look at an object now, and not after its interval, as `flux
// reconcile` does.
const askOfFlux = "reconcile.fluxcd.io/requestedAt"

// asked is a new value of that, and the patch that sets it.
func asked() (value, patch string) {
	value = time.Now().Format(time.RFC3339Nano)
	return value, `{"metadata":{"annotations":{"` + askOfFlux + `":"` + value + `"}}}`
}

// fetched waits until the source-controller has looked at the repository again.
func (g *gitops) fetched(t *testing.T) {
	t.Helper()
	value, patch := asked()
	g.patch(t, fluxSource, fluxNamespace, "team-a", patch)
	g.handled(t, fluxSource, "team-a", value)
}

// reconciled has the kustomize-controller look at a Kustomization again, and waits for what it
// says.
func (g *gitops) reconciled(t *testing.T, name string, ready metav1.ConditionStatus, says string) {
	t.Helper()
	value, patch := asked()
	g.patch(t, fluxApply, fluxNamespace, name, patch)
	g.handled(t, fluxApply, name, value)
	eventually(t, "the Kustomization "+name, func(ctx context.Context) error {
		is, err := g.objects.Resource(fluxApply).Namespace(fluxNamespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return isReady(is, ready, says)
	})
}

// handled waits until a controller of Flux has done what it was asked for.
func (g *gitops) handled(t *testing.T, of schema.GroupVersionResource, name, value string) {
	t.Helper()
	eventually(t, "Flux to look at "+name, func(ctx context.Context) error {
		is, err := g.objects.Resource(of).Namespace(fluxNamespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if done, _, _ := unstructured.NestedString(is.Object, "status", "lastHandledReconcileAt"); done != value {
			return fmt.Errorf("it was asked at %s, and has handled %q: %v", value, done, is.Object["status"])
		}
		return nil
	})
}

func (g *gitops) testFluxRefused(t *testing.T) {
	for name := range refusedOfFlux {
		g.kustomization(t, name)
	}
	for name, r := range refusedOfFlux {
		g.reconciled(t, name, metav1.ConditionFalse, r.says)
	}
	g.only(t, "sneaked")
	g.kustomization(t, "other-tenant")
	g.reconciled(t, "other-tenant", metav1.ConditionTrue, "")
	g.only(t, "misled", "apps.team-a")
	for _, s := range []*space{g.a, g.b} {
		client := s.client(t)
		_, err := client.RbacV1().ClusterRoles().Get(t.Context(), "sneaked", metav1.GetOptions{})
		absent(t, "the ClusterRole in "+s.name, err)
		_, err = client.RbacV1().RoleBindings("apps").Get(t.Context(), "sneaked", metav1.GetOptions{})
		absent(t, "the RoleBinding in "+s.name, err)
		_, err = client.CoreV1().Namespaces().Get(t.Context(), "sneaked", metav1.GetOptions{})
		absent(t, "the namespace in "+s.name, err)
	}
}

// testFluxEnds: without the access Flux says that it has none, a copy of the credentials has no
// rights, and what was applied stays. A Kustomization that is deleted then waits for the access.
func (g *gitops) testFluxEnds(t *testing.T) {
	kubeconfig := g.secret(t, fluxNamespace, "team-a").Data["value"]
	g.admin.ok(t, "delete tenantaccess flux-team-a")
	g.gone(t, corev1.SchemeGroupVersion.WithResource("secrets"), fluxNamespace, "team-a")
	refused(t, kubeconfig)
	g.reconciled(t, "team-a", metav1.ConditionFalse, `"team-a" not found`)
	g.admin.ok(t, "delete kustomization team-a --wait=false -n "+fluxNamespace)
	value, patch := asked()
	g.patch(t, fluxApply, fluxNamespace, "team-a", patch)
	g.handled(t, fluxApply, "team-a", value)
	landed(t, g.a, "apps", byFlux, "2")
	access, _, _ := strings.Cut(g.documented(t, "Flux", "yaml")[0], "\n---\n")
	g.admin.in(t, access, "apply -f -")
	g.admin.ok(t, "wait tenantaccess flux-team-a --for=condition=Ready")
	_, patch = asked()
	g.patch(t, fluxApply, fluxNamespace, "team-a", patch)
	g.gone(t, fluxApply, fluxNamespace, "team-a")
	g.only(t, byFlux)
}
