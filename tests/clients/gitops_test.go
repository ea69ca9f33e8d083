package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// envGitOps names the folder with what `make test-gitops` builds.
	envGitOps = "A4S_GITOPS"
	// accessPage is followed word by word; its repositories are at documentedGit.
	accessPage    = "../../docs/tenants/access.md"
	documentedGit = "https://git.example.com"
	// revisionKey is the key of the ConfigMaps that the repositories have.
	revisionKey = "revision"
)

// gitops is a cluster with two tenants, and a host of Git repositories.
type gitops struct {
	admin   *kubectl
	objects dynamic.Interface
	system  kubernetes.Interface
	a, b    *space
	git     *gitHost
	dir     string
}

// TestGitOps registers a tenant in Flux and in Argo CD as docs/tenants/access.md says, and lets
// their controllers, as released, put what is in a repository into its space.
func TestGitOps(t *testing.T) {
	dir := os.Getenv(envGitOps)
	if dir == "" {
		t.Skipf("%s is not set: make test-gitops runs this", envGitOps)
	}
	cfg := acme.config(t, adminKubeconfig())
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	g := &gitops{admin: newA4sKubectl(t, adminKubeconfig()), objects: objects, system: cluster(t), dir: dir}
	g.a, g.b = g.tenant(t, "team-a"), g.tenant(t, "team-b")
	g.admin.ok(t, "apply --server-side -f "+filepath.Join(dir, "crds"))
	// kubectl wait fails for one whose status is still empty.
	eventually(t, "the kinds of Flux and Argo CD", func(context.Context) error {
		out, err := g.admin.run(t, "", "wait crds --all --for=condition=Established --timeout=10s")
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
	t.Run("Flux", g.testFlux)
	t.Run("ArgoCD", g.testArgoCD)
}

// tenant makes a tenant with the namespace apps.
func (g *gitops) tenant(t *testing.T, name string) *space {
	t.Helper()
	s := &space{name: name, prefixed: filepath.Join(t.TempDir(), name+".yaml")}
	create := exec.Command(os.Getenv(envBinary), "tenant", "create", name, "--output", s.prefixed,
		"--kubeconfig", adminKubeconfig())
	create.Env = g.admin.command(t.Context()).Env
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", create, err, out)
	}
	if _, err := s.client(t).CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "apps"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// documented is what a section of the page has in blocks of a language, with the addresses of
// the test.
func (g *gitops) documented(t *testing.T, section, language string) []string {
	t.Helper()
	page, err := os.ReadFile(accessPage)
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	blocks := strings.Split(text, "\n```"+language+"\n")
	if !found || len(blocks) == 1 {
		t.Fatalf("%s has no %s under %q", accessPage, language, section)
	}
	for i, b := range blocks {
		b, _, _ = strings.Cut(b, "```")
		blocks[i] = strings.ReplaceAll(b, documentedGit, g.git.url)
	}
	return blocks[1:]
}

// resource is that of objects in the system space which a test asks for.
func resource(group, version, name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: name}
}

// patch changes an object of the system space.
func (g *gitops) patch(t *testing.T, of schema.GroupVersionResource, namespace, name, patch string) {
	t.Helper()
	if _, err := g.objects.Resource(of).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// gone waits until an object of the system space is not there.
func (g *gitops) gone(t *testing.T, of schema.GroupVersionResource, namespace, name string) {
	t.Helper()
	eventually(t, name+" to be gone", func(ctx context.Context) error {
		is, err := g.objects.Resource(of).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		status, _, _ := unstructured.NestedMap(is.Object, "status")
		return fmt.Errorf("it is there, with the finalizers %v: %v", is.GetFinalizers(), status)
	})
}

// secret is one of the system space.
func (g *gitops) secret(t *testing.T, namespace, name string) *corev1.Secret {
	t.Helper()
	s, err := g.system.CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// renew has an access give other credentials, and returns the Secret with them.
func (g *gitops) renew(t *testing.T, access, namespace, name string) *corev1.Secret {
	t.Helper()
	before := g.secret(t, namespace, name)
	g.admin.ok(t, `patch tenantaccess `+access+` --type=merge -p={"spec":{"expirationSeconds":3600}}`)
	var now *corev1.Secret
	eventually(t, "other credentials", func(ctx context.Context) (err error) {
		now, err = g.system.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && bytes.Equal(now.Data[corev1.TLSCertKey], before.Data[corev1.TLSCertKey]) {
			err = errors.New("the certificate is that of before")
		}
		return err
	})
	return now
}

// landed waits until a space has a ConfigMap as a revision of a repository has it.
func landed(t *testing.T, s *space, namespace, name, revision string) {
	t.Helper()
	client := s.client(t)
	eventually(t, "revision "+revision+" in "+s.name, func(ctx context.Context) error {
		cm, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && cm.Data[revisionKey] != revision {
			err = fmt.Errorf("it has %q", cm.Data[revisionKey])
		}
		return err
	})
}

// only fails if the ConfigMap of a name is anywhere but in these namespaces of the tenants, as
// the administrator of the cluster sees them.
func (g *gitops) only(t *testing.T, name string, namespaces ...string) {
	t.Helper()
	all, err := g.system.CoreV1().ConfigMaps("").List(t.Context(),
		metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, cm := range all.Items {
		found = append(found, cm.Namespace)
	}
	slices.Sort(found)
	if strings.Join(found, " ") != strings.Join(namespaces, " ") {
		t.Errorf("%s is in the namespaces %q, want %q", name, found, namespaces)
	}
}

// absent fails unless something was not found.
func absent(t *testing.T, what string, err error) {
	t.Helper()
	if !apierrors.IsNotFound(err) {
		t.Errorf("%s: %v, want it not to be found", what, err)
	}
}

// refused waits until a kubeconfig gives no right in the namespace apps.
func refused(t *testing.T, kubeconfig []byte) {
	t.Helper()
	cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a copy of the credentials to be refused", func(ctx context.Context) error {
		_, err := client.CoreV1().ConfigMaps("apps").List(ctx, metav1.ListOptions{})
		if apierrors.IsForbidden(err) {
			return nil
		}
		return errors.Join(errors.New("it is not forbidden"), err)
	})
}

// isReady returns an error unless the condition Ready of an object says so for its generation,
// with a message that has a part.
func isReady(o *unstructured.Unstructured, want metav1.ConditionStatus, part string) error {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, item := range list {
		c, ok := item.(map[string]any)
		if !ok || c["type"] != "Ready" {
			continue
		}
		message, _ := c["message"].(string)
		if c["status"] == string(want) && c["observedGeneration"] == o.GetGeneration() &&
			strings.Contains(message, part) {
			return nil
		}
	}
	return fmt.Errorf("the conditions are %v", list)
}

// run starts a program that runs until the test ends, with its own folder for files.
func (g *gitops) run(t *testing.T, name string, env []string, program string, args ...string) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH"),
		"KUBECONFIG=" + adminKubeconfig()}, env...)
	keepRunning(t, name, cmd, filepath.Join(dir, "log"))
}

// gitHost serves repositories over HTTP by Git's own program, as hosts do.
type gitHost struct{ url, dir string }

func startGit(t *testing.T) *gitHost {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	h := &gitHost{url: "http://" + l.Addr().String(), dir: t.TempDir()}
	server := &http.Server{Handler: &cgi.Handler{Path: program, Args: []string{"http-backend"}, Env: append(h.env(),
		"GIT_PROJECT_ROOT="+h.dir, "GIT_HTTP_EXPORT_ALL=1")}}
	go func() { _ = server.Serve(l) }() // until it is closed
	t.Cleanup(func() { _ = server.Close() })
	return h
}

// env keeps the settings of whoever runs the tests out.
func (h *gitHost) env() []string {
	return []string{"HOME=" + h.dir, "PATH=" + os.Getenv("PATH"),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"}
}

// commit adds files to a repository, which it makes if there is none. Their names begin with
// folders.
func (h *gitHost) commit(t *testing.T, repository string, files map[string]string) {
	t.Helper()
	bare, tree := filepath.Join(h.dir, repository+".git"), filepath.Join(h.dir, repository)
	git := func(args ...string) {
		cmd := exec.Command("git", args...)
		cmd.Env = h.env()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	if _, err := os.Stat(bare); errors.Is(err, os.ErrNotExist) {
		git("init", "--quiet", "--bare", "--initial-branch=main", bare)
	}
	for name, text := range files {
		path := filepath.Join(tree, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git("--git-dir", bare, "--work-tree", tree, "add", "--all")
	git("--git-dir", bare, "--work-tree", tree, "commit", "--quiet", "--message", "change")
}

// revision is a ConfigMap that says which revision of a repository it is of.
func revision(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {%s: %q}\n",
		name, revisionKey, value)
}
