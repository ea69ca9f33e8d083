package clients

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// TestManifestsChooseTheSpace: whatever the command and wherever its manifests
// come from, it is about the tenant that they name, and the object of that
// name in the system space stays as it is.
func TestManifestsChooseTheSpace(t *testing.T) {
	t.Parallel()
	const name = "two-of-it"
	k := newA4sKubectl(t, adminKubeconfig())
	system, tenant := cluster(t), acme.client(t)
	about := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"of": "system"}}
	made, err := system.CoreV1().ConfigMaps("default").Create(t.Context(), about, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	manifest := func(tenant, value string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: default, tenant: %s}\n"+
			"data: {of: %s}\n", name, tenant, value)
	}
	file := func(dir, content string) string {
		path := filepath.Join(k.home, dir, "manifest.yaml")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ours := file("ours", manifest("acme", "tenant"))
	changed := file("changed", manifest("acme", "changed"))
	if err := os.WriteFile(filepath.Join(k.home, "changed", "kustomization.yaml"),
		[]byte("resources: [manifest.yaml]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	data := func() map[string]string {
		t.Helper()
		cm, err := tenant.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range cm.Labels {
			cm.Data["label "+key] = value
		}
		for key, value := range cm.Annotations {
			cm.Data["annotation "+key] = value
		}
		return cm.Data
	}
	for _, step := range []struct{ args, stdin, key, value string }{
		{args: "apply -f " + ours, key: "of", value: "tenant"},
		{args: "apply -f " + ours, key: "of", value: "tenant"},
		{args: "apply -f -", stdin: manifest("acme", "changed"), key: "of", value: "changed"},
		{args: "apply --server-side --force-conflicts -f " + ours, key: "of", value: "tenant"},
		{args: "apply -k " + filepath.Dir(changed), key: "of", value: "changed"},
		{args: "apply view-last-applied -f " + ours, key: "of", value: "changed"},
		{args: "replace -f " + ours, key: "of", value: "tenant"},
		{args: "label -f " + filepath.Dir(ours) + " a=b", key: "label a", value: "b"},
		{args: "annotate -f - c=d", stdin: manifest("acme", "x"), key: "annotation c", value: "d"},
		{args: `patch -f ` + ours + ` --type=merge -p={"data":{"patched":"yes"}}`, key: "patched", value: "yes"},
		{args: "wait -f " + ours + " --for=jsonpath={.data.patched}=yes --timeout=30s", key: "of", value: "tenant"},
		{args: "delete -f " + ours + " --dry-run=server", key: "of", value: "tenant"},
		{args: "delete -f " + ours},
		{args: "create -f -", stdin: manifest("acme", "again"), key: "of", value: "again"},
		{args: "replace --force -f " + ours, key: "of", value: "tenant"},
	} {
		k.in(t, step.stdin, step.args)
		if step.key != "" {
			if got := data()[step.key]; got != step.value {
				t.Errorf("kubectl %s: %s is %q in the tenant, not %q", step.args, step.key, got, step.value)
			}
		}
	}
	k.shows(t, "get -f "+ours+" -o yaml", `^  of: tenant$`, `^  tenant: acme$`)
	k.shows(t, "describe -f "+ours, `^tenant$`)
	k.fails(t, "diff -f "+changed, `^-  of: tenant$`, `^\+  of: changed$`)
	k.shows(t, "--tenant=acme get -f "+ours+" -o yaml", `^  of: tenant$`)

	theirs := file("theirs", manifest("globex", "x"))
	nobodys := file("nobodys", strings.Replace(manifest("x", "x"), ", tenant: x", "", 1))
	k.fails(t, "delete -f "+ours+" -f "+theirs, `^a4s: .*ours/manifest.yaml: ConfigMap two-of-it: metadata.tenant: `+
		`invalid value "acme": .*theirs/manifest.yaml: .* is globex`)
	k.fails(t, "delete -f "+ours+" -f "+nobodys, `nobodys/manifest.yaml: .* is not set: want --tenant acme`)
	k.fails(t, "--tenant globex delete -f "+ours,
		`ours/manifest.yaml: .*: "acme" is ignored, the space of the command is globex`,
		`NotFound`)
	k.in(t, "", "--tenant globex apply -f "+ours)
	k.shows(t, "--tenant globex get -f "+ours+" -o yaml", `^  tenant: globex$`)
	k.ok(t, "--tenant globex delete -f "+ours)
	k.fails(t, "delete -f "+file("unknown", manifest("acmee", "x")), `no such tenant: want "acme"`)
	for _, kubeconfig := range []string{globex.prefixed, globex.byIdentity} {
		other := newA4sKubectl(t, kubeconfig)
		other.fails(t, "delete -f "+ours, `NotFound|tenant "globex" cannot reach space "acme"`)
	}
	if got := data()["of"]; got != "tenant" {
		t.Errorf("after what was refused the tenant's object has %q", got)
	}
	k.ok(t, "delete -f "+ours)
	k.fails(t, "get -f "+ours, `NotFound`)
	if now, err := system.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{}); err != nil ||
		now.ResourceVersion != made.ResourceVersion {
		t.Errorf("the system's object: %v, %+v", err, now)
	}
}

// cluster is a client with the rights of the administrator of the cluster.
func cluster(t *testing.T) kubernetes.Interface {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", adminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestKubectlOfA4s has what the kubectl of a4s adds to upstream's.
func TestKubectlOfA4s(t *testing.T) {
	t.Parallel()
	k := newA4sKubectl(t, adminKubeconfig())
	t.Run("refused", func(t *testing.T) {
		out, err := newA4sKubectl(t, acme.byIdentity).run(t, "", "--tenant globex get pods")
		if want := "Error from server (Forbidden): forbidden: User \"admin\" cannot get path \"/api\": " +
			"tenant \"acme\" cannot reach space \"globex\"\n"; err == nil || out != want {
			t.Errorf("%v, %q, want %q", err, out, want)
		}
	})
	t.Run("record", func(t *testing.T) {
		k.ok(t, "--tenant acme create configmap recorded")
		k.ok(t, "label --tenant=acme configmap recorded a=b --record")
		k.shows(t, "--tenant acme get configmap recorded -o jsonpath={.metadata.annotations}",
			`a4s kubectl label configmap recorded a=b --tenant=acme --record=true`)
	})
	t.Run("describe", func(t *testing.T) {
		k.ok(t, "--tenant acme create configmap described")
		k.shows(t, "describe configmap described --namespace=default.acme",
			`^Namespace: +default\.acme$\n^Tenant: +acme$`)
		k.ok(t, "--tenant acme create clusterrole described --verb=get --resource=pods")
		k.shows(t, "describe clusterrole described.acme.tenant", `^Tenant: +acme$`)
		out := k.ok(t, "--tenant acme describe configmap described")
		if strings.Contains(out, "Tenant:") {
			t.Errorf("in the space:\n%s", out)
		}
	})
	t.Run("all", func(t *testing.T) {
		for _, s := range []*space{acme, globex} {
			k.ok(t, "--tenant "+s.name+" create configmap in-all")
		}
		k.shows(t, "--tenant all get configmaps -A --field-selector metadata.name=in-all",
			`^NAMESPACE +TENANT +NAME`, `^default +acme +in-all`, `^default +globex +in-all`)
		k.shows(t, "get configmaps -A --field-selector metadata.name=in-all", `TENANT$`,
			`^default\.acme +in-all.* acme$`)
		k.fails(t, "--tenant all create configmap of-nobody")
	})
	t.Run("tenant", func(t *testing.T) {
		k.shows(t, "create tenant initech --dry-run=server -o yaml", `^kind: Tenant$`, `^  name: initech$`, `uid: `)
		k.fails(t, "get tenant initech", `NotFound`)
		k.shows(t, "create tenant initech", `^tenant/initech created$`)
		k.fails(t, "create tenant initech", `AlreadyExists`)
		k.fails(t, "create tenant In_itech", `the tenant name "In_itech"`)
		k.shows(t, "__complete get pods --tenant ini", `^initech$`)
		k.shows(t, "delete tenant initech --wait=false", `deleted`)
	})
	t.Run("context", func(t *testing.T) {
		current := strings.TrimSpace(k.ok(t, "config current-context"))
		k.shows(t, "config set-context ours --cluster=default --user=default --tenant=acme",
			`^Context "ours" created\.$`)
		k.shows(t, "--context=ours get configmap -n default -o yaml", `^    tenant: acme$`)
		k.shows(t, "config use-context ours", `Switched`)
		k.shows(t, "config current-context", `^ours$`)
		k.ok(t, "config set-context --current --tenant=globex")
		k.shows(t, "get configmap kube-root-ca.crt -o yaml", `^  tenant: globex$`)
		k.fails(t, "get pods --tenant=acme", `the kubeconfig is for the tenant globex only`)
		k.ok(t, "config use-context "+current)
	})
	t.Run("cp", func(t *testing.T) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "copied"},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "a4s/none:1"}}}}
		if _, err := acme.client(t).CoreV1().Pods("default").
			Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		// There is no node, so the pod is all that is found.
		k.fails(t, "cp acme/default/copied:/x "+filepath.Join(k.home, "x"), `pod copied does not have a host assigned`)
		k.fails(t, "cp "+k.kubeconfig+" acme/default/copied:/x", `pod copied does not have a host assigned`)
		k.fails(t, "cp globex/default/copied:/x "+filepath.Join(k.home, "x"), `pods "copied" not found`)
		k.fails(t, "--tenant globex cp acme/default/copied:/x "+filepath.Join(k.home, "x"),
			`invalid value "acme": --tenant is globex`)
	})
}

// TestKubectlEndsByTheFirstSignal: also what waits for a server that does not
// answer, and as any program that has no other wish.
func TestKubectlEndsByTheFirstSignal(t *testing.T) {
	t.Parallel()
	k := newA4sKubectl(t, adminKubeconfig())
	// silent is a server of which only one command knows.
	silent := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		cfg := clientcmdapi.NewConfig()
		cfg.Clusters["c"] = &clientcmdapi.Cluster{Server: "http://" + l.Addr().String()}
		cfg.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
		cfg.CurrentContext = "c"
		if err := clientcmd.WriteToFile(*cfg, k.kubeconfig); err != nil {
			t.Fatal(err)
		}
		return l
	}
	for _, args := range []string{"exec p -- true", "attach p", "port-forward p 8080", "logs p", "get pods"} {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			server := silent()
			w := k.watch(t, args)
			asked, err := server.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if err := w.cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			err = ended(t, w.cmd)
			var exit *exec.ExitError
			if !errors.As(err, &exit) {
				t.Fatalf("kubectl %s, %s: %v", args, signal, err)
			}
			if status, ok := exit.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != signal {
				t.Errorf("kubectl %s, %s: ended with %v\n%s", args, signal, err, w.output())
			}
			_ = asked.Close()
		}
	}
}

// ended waits for a program that was asked to end.
func ended(t *testing.T, cmd *exec.Cmd) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		t.Fatalf("%s goes on", cmd)
		return nil
	}
}
