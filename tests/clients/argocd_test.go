package clients

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	argoNamespace = "argocd"
	argoRedis     = "127.0.0.1:6379"
	argoRepo      = "127.0.0.1:8081"
	// debianRedis is the program that Debian's redis-tools has for checks, and that is the
	// server by another name. The package redis-server would also start it as a service.
	debianRedis = "/usr/bin/redis-check-rdb"
	// byArgo is the ConfigMap, and the ClusterRole, that Argo CD deploys.
	byArgo = "by-argo"
)

var argoApps = resource("argoproj.io", "v1alpha1", "applications")

// argoProject is what the API server of Argo CD, which does not run here, makes at first.
const argoProject = `
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: default, namespace: argocd}
spec:
  sourceRepos: ["*"]
  destinations: [{namespace: "*", server: "*"}]
  clusterResourceWhitelist: [{group: "*", kind: "*"}]
`

// argoRespectsRoles is what the page says of roles that may not list all kinds.
const argoRespectsRoles = `{"data":{"resource.respectRBAC":"normal"}}`

// argoClusterRole has a name that the system space and each tenant can have.
const argoClusterRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: by-argo}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
`

// argoInNamespace registers team-b with the role edit in one namespace, and deploys there what
// belongs there and what does not.
const argoInNamespace = `
apiVersion: v1
kind: TenantAccess
metadata: {name: argocd-team-b}
spec:
  tenant: team-b
  user: argocd
  role: edit
  namespace: apps
  secret: {namespace: argocd, name: cluster-team-b, format: ArgoCD}
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: team-b, namespace: argocd}
spec:
  project: default
  destination: {name: team-b, namespace: apps}
  source: {repoURL: GIT/team-b.git, targetRevision: main, path: deploy}
  syncPolicy: {automated: {}}
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: team-b-sneaked, namespace: argocd}
spec:
  project: default
  destination: {name: team-b, namespace: apps}
  source: {repoURL: GIT/team-b.git, targetRevision: main, path: sneaked}
  syncPolicy: {automated: {}}
`

func (g *gitops) testArgoCD(t *testing.T) {
	g.git = startGit(t)
	g.git.commit(t, "team-a", map[string]string{"deploy/deployed.yaml": revision(byArgo, "1"),
		"deploy/role.yaml": argoClusterRole})
	g.git.commit(t, "team-b", map[string]string{"deploy/deployed.yaml": revision(byArgo, "b"),
		"sneaked/role.yaml": argoClusterRole})
	g.startArgo(t)
	// As it is written: by these commands, with a4s and its kubeconfig at hand.
	dir, blocks := t.TempDir(), g.documented(t, "Argo CD", "yaml")
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of YAML", len(blocks))
	}
	writeFiles(t, dir, map[string]string{"access.yaml": blocks[0]})
	if err := os.Symlink(os.Getenv(envBinary), filepath.Join(dir, "a4s")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", g.documented(t, "Argo CD", "sh")[0])
	cmd.Dir, cmd.Env = dir, append(g.admin.command(t.Context()).Env, "PATH="+dir+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	g.admin.in(t, blocks[1], "apply -f -")
	g.synced(t, "team-a", "Succeeded")
	landed(t, g.a, "web", byArgo, "1")
	g.isRegistered(t)

	t.Run("one namespace", g.testArgoNamespace)
	t.Run("renewed credentials", func(t *testing.T) {
		g.git.commit(t, "team-a", map[string]string{"deploy/deployed.yaml": revision(byArgo, "2")})
		g.renew(t, "argocd-team-a", argoNamespace, "cluster-team-a")
		g.refresh(t, "team-a")
		landed(t, g.a, "web", byArgo, "2")
		g.synced(t, "team-a", "Succeeded")
	})
	t.Run("the access is taken away", g.testArgoEnds)
}

// startArgo runs what Argo CD needs to deploy: its application-controller, its repo-server and
// Redis.
func (g *gitops) startArgo(t *testing.T) {
	t.Helper()
	g.admin.ok(t, "create namespace "+argoNamespace)
	g.admin.ok(t, "apply -n "+argoNamespace+" -f "+filepath.Join(g.dir, "argocd-config"))
	g.admin.in(t, argoProject, "apply -f -")
	g.patch(t, corev1.SchemeGroupVersion.WithResource("secrets"), argoNamespace, "argocd-secret",
		`{"stringData":{"server.secretkey":"c2VjcmV0"}}`)
	// A folder of its own as /tmp, where the repo-server makes a socket whatever TMPDIR says.
	inside := []string{"--mount", "sh", "-ec", `mount -t tmpfs tmpfs /tmp; exec "$0" "$@"`}
	_, redisPort, _ := net.SplitHostPort(argoRedis)
	g.run(t, "Redis", nil, "unshare", append(inside, "bash", "-c", `exec -a redis-server "$0" "$@"`, debianRedis,
		"--port", redisPort, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")...)
	argo := filepath.Join(g.dir, "argocd")
	// It runs a script that is beside it in its image, also where no commit is to be signed.
	env := []string{"ARGOCD_GPG_ENABLED=false", "PATH=" + g.dir + ":" + os.Getenv("PATH")}
	g.run(t, "the repo-server", append(env, "ARGOCD_BINARY_NAME=argocd-repo-server"), "unshare",
		append(inside, argo, "--redis", argoRedis, "--address", "127.0.0.1", "--metrics-address", "127.0.0.1")...)
	g.run(t, "the application-controller", append(env, "ARGOCD_BINARY_NAME=argocd-application-controller"), "unshare",
		append(inside, argo, "--redis", argoRedis, "--repo-server", argoRepo, "--namespace", argoNamespace)...)
}

// refresh has the controller look at a repository now.
func (g *gitops) refresh(t *testing.T, app string) {
	t.Helper()
	g.patch(t, argoApps, argoNamespace, app, `{"metadata":{"annotations":{"argocd.argoproj.io/refresh":"hard"}}}`)
}

// synced waits until an application is what its repository says, by an operation that ended so.
func (g *gitops) synced(t *testing.T, app, phase string) {
	t.Helper()
	eventually(t, app+" to be synced", func(ctx context.Context) error {
		is, err := g.objects.Resource(argoApps).Namespace(argoNamespace).Get(ctx, app, metav1.GetOptions{})
		if err != nil {
			return err
		}
		sync, _, _ := unstructured.NestedString(is.Object, "status", "sync", "status")
		ended, _, _ := unstructured.NestedString(is.Object, "status", "operationState", "phase")
		if sync != "Synced" || ended != phase {
			return fmt.Errorf("it is %q, the operation is %q: %v", sync, ended, is.Object["status"])
		}
		return nil
	})
}

// says waits until the status of an application has a text.
func (g *gitops) says(t *testing.T, app, text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s to say %q", app, text), func(ctx context.Context) error {
		is, err := g.objects.Resource(argoApps).Namespace(argoNamespace).Get(ctx, app, metav1.GetOptions{})
		if err != nil {
			return err
		}
		status, err := json.Marshal(is.Object["status"])
		if err == nil && !strings.Contains(string(status), text) {
			err = errors.New(string(status))
		}
		return err
	})
}

// isRegistered: what the application has is in its tenant's space and nowhere else.
func (g *gitops) isRegistered(t *testing.T) {
	t.Helper()
	g.only(t, byArgo, "web.team-a")
	_, err := g.system.CoreV1().Namespaces().Get(t.Context(), "web", metav1.GetOptions{})
	absent(t, "the namespace web of the system space", err)
	if _, err := g.a.client(t).RbacV1().ClusterRoles().Get(t.Context(), byArgo, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	_, err = g.system.RbacV1().ClusterRoles().Get(t.Context(), byArgo, metav1.GetOptions{})
	absent(t, "the ClusterRole in the system space", err)
	_, err = g.b.client(t).RbacV1().ClusterRoles().Get(t.Context(), byArgo, metav1.GetOptions{})
	absent(t, "the ClusterRole in team-b", err)
}

// testArgoNamespace: with one namespace and the role edit, Argo CD deploys there alone, once it
// has the setting that the page names.
func (g *gitops) testArgoNamespace(t *testing.T) {
	g.patch(t, corev1.SchemeGroupVersion.WithResource("configmaps"), argoNamespace, "argocd-cm", argoRespectsRoles)
	access, apps, _ := strings.Cut(strings.ReplaceAll(argoInNamespace, "GIT", g.git.url), "\n---\n")
	g.admin.in(t, access, "apply -f -")
	g.admin.ok(t, "wait tenantaccess argocd-team-b --for=condition=Ready") // or Argo CD looks again after minutes
	g.admin.in(t, apps, "apply -f -")
	g.synced(t, "team-b", "Succeeded")
	landed(t, g.b, "apps", byArgo, "b")
	g.says(t, "team-b-sneaked", "namespaced mode")
	_, err := g.b.client(t).RbacV1().ClusterRoles().Get(t.Context(), byArgo, metav1.GetOptions{})
	absent(t, "the ClusterRole in team-b", err)
	g.only(t, byArgo, "apps.team-b", "web.team-a")
}

// testArgoEnds: without the access Argo CD has no such cluster, a copy of the credentials has no
// rights, and what was deployed stays, also when the application is deleted with what it has.
func (g *gitops) testArgoEnds(t *testing.T) {
	secret := g.secret(t, argoNamespace, "cluster-team-a")
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: string(secret.Data["server"]),
		CertificateAuthorityData: secret.Data[corev1.ServiceAccountRootCAKey]}
	config.AuthInfos["c"] = &clientcmdapi.AuthInfo{ClientCertificateData: secret.Data[corev1.TLSCertKey],
		ClientKeyData: secret.Data[corev1.TLSPrivateKeyKey]}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "c"}
	config.CurrentContext = "c"
	kubeconfig, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	g.patch(t, argoApps, argoNamespace, "team-a",
		`{"metadata":{"finalizers":["resources-finalizer.argocd.argoproj.io"]}}`)
	g.admin.ok(t, "delete tenantaccess argocd-team-a")
	g.gone(t, corev1.SchemeGroupVersion.WithResource("secrets"), argoNamespace, "cluster-team-a")
	refused(t, kubeconfig)
	g.refresh(t, "team-a")
	g.says(t, "team-a", "there are no clusters with this name: team-a")
	g.admin.ok(t, "delete application team-a -n "+argoNamespace)
	landed(t, g.a, "web", byArgo, "2")
}
