package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/charthost"
	"github.com/a4s-io/a4s/tests/hosts"
)

const (
	manifestsDir = dataDir + "/server/manifests"
	// trustedCAs is a file of the server's host, instead of the machine's.
	trustedCAs = "/etc/a4s/ca.pem"
)

// k3sExamples is a server to which the examples of k3s' documentation are given, and a host that is the
// internet for it: it has the names of the documentation's repositories.
type k3sExamples struct {
	c        *cluster
	internet *hosts.Host
	private  *charthost.Host
	// privateCA verifies the private repository, systemCAs the others.
	privateCA, systemCAs []byte
}

// TestExamplesOfK3s: what users copy from k3s' documentation does the same here, or is refused with a reason.
// The files of testdata/k3s are the documentation's, word for word. The charts and the image that they name
// are not: these are small ones of this test under the same names.
func TestExamplesOfK3s(t *testing.T) {
	t.Parallel()
	k := &k3sExamples{internet: newHost(t, "k3s-internet")}
	k.serveCharts(t)
	k.start(t)
	t.Run("registries.yaml", k.testRegistries)
	t.Run("config.yaml", k.testConfiguration)
	t.Run("a chart as a manifest", k.testChart)
	t.Run("a private repository", k.testPrivateRepository)
	t.Run("a chart of the server", k.testTraefik)
	t.Run("a chart of a tenant", k.testTenant)
	t.Run("manifests", k.testManifests)
	t.Run("a volume", k.testVolume)
	t.Run("policies and a GPU", k.testObjects)
}

// k3sExample is a file of testdata/k3s.
func k3sExample(t *testing.T, name string) (path, text string) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", "k3s", name))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, string(b)
}

// start starts the server with the documentation's configuration.
func (k *k3sExamples) start(t *testing.T) {
	h := newHost(t, "k3s-examples")
	// The names of the documentation are those of the host that is the internet.
	names := "127.0.0.1 localhost\n" + k.internet.IP.String() +
		" charts.bitnami.com secure-repo.example.com repo.example.com\n"
	_, config := k3sExample(t, "config.yaml")
	_, registries := k3sExample(t, "registries-tls-auth.yaml")
	for path, text := range map[string]string{
		"/etc/a4s/hosts": names, trustedCAs: string(k.systemCAs), "/etc/a4s/config.yaml": config,
		"/etc/a4s/registries.yaml": registries, dataDir + "/agent/images/nginx.tar": k.nginx(t),
	} {
		if err := h.WriteFile(path, text); err != nil {
			t.Fatal(err)
		}
	}
	run(t, h, "mount", "--bind", "/etc/a4s/hosts", "/etc/hosts")
	k.c = &cluster{node: node{host: h, binary: "/usr/bin/env",
		args: []string{"SSL_CERT_FILE=" + trustedCAs, "NO_PROXY=*", env.binary, "server"}}}
	if err := errors.Join(k.c.importImages(), k.c.start()); err != nil {
		t.Fatal(err)
	}
	k.c.reportOnFailure(t)
	k.c.waitReady(t)
	k.c.waitOwnNode(t)
	k.c.takesPods(t, "default")
}

// nginx is an archive with an image of that name, which waits, and has a shell.
func (k *k3sExamples) nginx(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(buildImage(t, "../..", "docker.io/library/nginx:stable-alpine", "--deb", "busybox-static",
		"--entrypoint", "/bin/busybox", "--entrypoint", "sleep", "--cmd", "1000000"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// serveCharts has the repositories of the documentation at port 443 of their host.
func (k *k3sExamples) serveCharts(t *testing.T) {
	bitnami, open := charthost.New(t), charthost.New(t)
	k.private = charthost.New(t)
	k.private.Username, k.private.Password = "user", "pass"
	_, template := k3sExample(t, "chart-apache.yaml")
	bitnami.Add("apache", "11.3.2", charthost.Archive(t, "apache", "11.3.2", map[string]string{
		"values.yaml":        "service: {type: LoadBalancer}\ningress: {enabled: false, hostname: apache.local}\n",
		"templates/web.yaml": template,
	}))
	app := charthost.Archive(t, "example-app", "1.2.3", map[string]string{
		"values.yaml": "image: {tag: none}\nadminUser: {username: none}\ndatabase: {address: none}\n",
		"templates/app.yaml": valuesTemplate("{{ .Values.image.tag }} {{ .Values.adminUser.username }} " +
			"{{ .Values.database.address }}"),
	})
	k.private.Add("example-app", "1.2.3", app)
	open.Add("example-app", "1.2.3", app)
	names := http.NewServeMux()
	names.Handle("charts.bitnami.com/bitnami/", http.StripPrefix("/bitnami", bitnami))
	names.Handle("charts.bitnami.com/", bitnami)
	names.Handle("secure-repo.example.com/", k.private)
	names.Handle("repo.example.com/", open)
	config := &tls.Config{}
	for _, name := range []string{"charts.bitnami.com", "repo.example.com", "secure-repo.example.com"} {
		s := certificateSecret(t, "", name, name)
		pair, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey])
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = append(config.Certificates, pair)
		if name == "secure-repo.example.com" {
			k.privateCA = s.Data[corev1.TLSCertKey]
		} else {
			k.systemCAs = append(k.systemCAs, s.Data[corev1.TLSCertKey]...)
		}
	}
	server := &http.Server{Handler: names, ReadHeaderTimeout: timeout, ErrorLog: log.New(discard{}, "", 0)}
	listener := listenOn(t, k.internet, ":443")
	go func() { _ = server.Serve(tls.NewListener(listener, config)) }()
	t.Cleanup(func() { _ = server.Close() })
}

// listenOn listens as a process on a host does.
func listenOn(t *testing.T, h *hosts.Host, address string) (l net.Listener) {
	t.Helper()
	if err := inNetworkOf(h, func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return l
}

// valuesTemplate is a ConfigMap that shows values.
func valuesTemplate(values string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {key: \"" + values + "\"}\n"
}

// waitKey waits until a ConfigMap has this as its key.
func (k *k3sExamples) waitKey(t *testing.T, ns, name, want string) {
	t.Helper()
	hosts.Until(t, soon, fmt.Sprintf("ConfigMap %s/%s has %s", ns, name, want), func(ctx context.Context) error {
		m, err := k.c.client.CoreV1().ConfigMaps(ns).Get(ctx, name, metav1.GetOptions{})
		if err == nil && m.Data["key"] != want {
			err = fmt.Errorf("it has %v; HelmChart: %s", m.Data, k.chart(t, name))
		}
		return err
	})
}

// chart is what the API has of a HelmChart, empty if there is none.
func (k *k3sExamples) chart(t *testing.T, name string) string {
	t.Helper()
	code, body := rawGet(t, k.c.client, "/apis/helm.cattle.io/v1/namespaces/kube-system/helmcharts/"+name)
	if code == http.StatusNotFound {
		return ""
	}
	return body
}

// write writes a manifest where the server reads it.
func (k *k3sExamples) write(t *testing.T, name, text string) {
	t.Helper()
	if err := k.c.host.WriteFile(manifestsDir+"/"+name, text); err != nil {
		t.Fatal(err)
	}
}

// testRegistries starts an agent with each file. One with a mistake is refused for it, the others for a port
// that is taken, of which one learns later.
func (k *k3sExamples) testRegistries(t *testing.T) {
	if _, err := k.internet.Start(env.testbox, "serve", ":10250"); err != nil {
		t.Fatal(err)
	}
	hosts.Until(t, soon, "port 10250 is taken", func(ctx context.Context) error {
		_, err := get(ctx, http.DefaultClient, k.internet.IP.String()+":10250", "", "/hostname")
		return err
	})
	files, err := filepath.Glob("testdata/k3s/registries-*.yaml")
	if err != nil || len(files) != 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		file, _ := k3sExample(t, filepath.Base(name))
		want := "port 10250/tcp"
		switch filepath.Base(name) {
		case "registries-rewrite.yaml":
			want = "key mirrors.docker.io.rewrite"
		case "registries-token.yaml":
			want = "field token"
		}
		r := command(t, k.internet, "agent", "--server", k.c.url(), "--token", "x", "--private-registry", file)
		if r.ExitCode == 0 || !strings.Contains(r.Stderr, want) {
			t.Errorf("%s: exit code %d, %s; want %q", name, r.ExitCode, r.Stderr, want)
		}
	}
}

func (k *k3sExamples) testConfiguration(t *testing.T) {
	if info, err := os.Stat(k.c.host.Path(kubeconfig)); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("the kubeconfig: %v, %v", info, err)
	}
	n, err := k.c.client.CoreV1().Nodes().Get(t.Context(), k.c.host.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n.Labels["foo"] != "bar" || n.Labels["something"] != "amazing" {
		t.Errorf("the labels of the node: %v", n.Labels)
	}
	conn, err := tls.Dial("tcp", net.JoinHostPort(k.c.host.IP.String(), "6443"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.ConnectionState().PeerCertificates[0].VerifyHostname("foo.local"); err != nil {
		t.Error(err)
	}
	if members := k.c.must(t, "etcd-member", "list"); !strings.Contains(members, k.c.host.Name) {
		t.Errorf("the members of the datastore: %s", members)
	}
}

// testChart: the chart comes up, and its Ingress is served at port 80 of the node.
func (k *k3sExamples) testChart(t *testing.T) {
	_, text := k3sExample(t, "apache.yaml")
	k.write(t, "apache.yaml", text)
	hosts.Until(t, podTimeout, "the chart answers at www.example.com", func(ctx context.Context) error {
		a, err := get(ctx, http.DefaultClient, k.c.host.IP.String(), "www.example.com", "/hostname")
		if err == nil && (a.status != http.StatusOK || !strings.HasPrefix(a.text, "apache-")) {
			err = fmt.Errorf("%d %s; HelmChart: %s", a.status, a.text, k.chart(t, "apache"))
		}
		return err
	})
	k.c.waitIngressAddresses(t, "web", "apache", k.c.host.IP.String())
	k.c.must(t, "kubectl", "wait", "-n", "kube-system", "--for=condition=Ready", "helmchart/apache", "--timeout=2m")
	s, err := k.c.client.CoreV1().Services("web").Get(t.Context(), "apache", metav1.GetOptions{})
	if err != nil || s.Spec.Type != corev1.ServiceTypeClusterIP {
		t.Errorf("the Service: %+v, %v", s.Spec, err)
	}
}

// testPrivateRepository: with a password and a CA, then with values in a Secret.
func (k *k3sExamples) testPrivateRepository(t *testing.T) {
	_, text := k3sExample(t, "private-repo.yaml")
	const placeholder = "-----BEGIN CERTIFICATE-----\n    <YOUR CERTIFICATE>\n    -----END CERTIFICATE-----"
	ca := strings.ReplaceAll(strings.TrimSpace(string(k.privateCA)), "\n", "\n    ")
	file := filepath.Join(t.TempDir(), "private-repo.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(text, placeholder, ca, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	k.c.must(t, "kubectl", "apply", "-f", file)
	k.waitKey(t, "example-namespace", "example-app", "v1.2.2 none none")
	if asked := k.private.Asked(); !slices.Contains(asked, "GET /archives/example-app/1.2.3.tgz user") {
		t.Errorf("the private repository was asked %v", asked)
	}
	file, _ = k3sExample(t, "values-secrets.yaml")
	k.c.must(t, "kubectl", "apply", "-f", file)
	k.waitKey(t, "example-namespace", "example-app", "v1.2.2 admin db.example.com")
}

// testTraefik: a HelmChartConfig changes nothing while there is no such chart, and then the one that is a
// file of the server.
// testTenant: a tenant with whom the CRDs are shared has its charts installed, with its own values.
func (k *k3sExamples) testTenant(t *testing.T) {
	for _, kind := range []string{"helmcharts", "helmchartconfigs"} {
		k.c.mustKubectl(t, "annotate crd "+kind+".helm.cattle.io arktos.futurewei.com/crd-sharing-policy=optional")
	}
	k.c.must(t, "tenant", "create", "team")
	const path = "/etc/a4s/team.yaml"
	if err := k.c.host.WriteFile(path, `apiVersion: helm.cattle.io/v1
kind: HelmChart
metadata: {name: app, namespace: default}
spec:
  repo: https://repo.example.com
  chart: example-app
  valuesContent: "{image: {tag: v1}, adminUser: {username: me}, database: {address: here}}"
`); err != nil {
		t.Fatal(err)
	}
	hosts.Until(t, soon, "the tenant has HelmCharts", func(context.Context) error {
		if r := k.c.a4s(t, "kubectl", "--tenant", "team", "apply", "-f", path); r.ExitCode != 0 {
			return errors.New(r.Stderr)
		}
		return nil
	})
	k.c.must(t, "kubectl", "--tenant", "team", "wait", "--for=condition=Ready", "--timeout=2m", "helmchart/app")
	got := k.c.must(t, "kubectl", "--tenant", "team", "get", "configmap", "app", "-o", "jsonpath={.data.key}")
	if got != "v1 me here" {
		t.Errorf("the chart brought %q", got)
	}
	if r := k.c.a4s(t, "kubectl", "get", "configmap", "app"); r.ExitCode == 0 {
		t.Errorf("the space of the system has it: %s", r.Stdout)
	}
	k.c.must(t, "kubectl", "--tenant", "team", "delete", "helmchart", "app")
	k.c.must(t, "kubectl", "--tenant", "team", "wait", "--for=delete", "--timeout=2m", "configmap/app")
	k.c.must(t, "tenant", "delete", "team", "--yes")
}

func (k *k3sExamples) testTraefik(t *testing.T) {
	_, text := k3sExample(t, "traefik-config.yaml")
	k.write(t, "traefik-config.yaml", text)
	hosts.Until(t, soon, "the HelmChartConfig is there", func(ctx context.Context) error {
		return k.c.client.Discovery().RESTClient().Get().
			AbsPath("/apis/helm.cattle.io/v1/namespaces/kube-system/helmchartconfigs/traefik").Do(ctx).Error()
	})
	if chart := k.chart(t, "traefik"); chart != "" {
		t.Errorf("there is a HelmChart: %s", chart)
	}
	archive := charthost.Archive(t, "traefik", "37.0.0", map[string]string{
		"values.yaml": "image: {repository: none, tag: none}\nports: {web: {forwardedHeaders: {trustedIPs: []}}}\n",
		"templates/values.yaml": valuesTemplate("{{ .Values.image.repository }}:{{ .Values.image.tag }} " +
			"{{ join `,` .Values.ports.web.forwardedHeaders.trustedIPs }}"),
	})
	if err := k.c.host.WriteFile(dataDir+"/server/static/charts/traefik-37.0.000.tgz", string(archive)); err != nil {
		t.Fatal(err)
	}
	k.write(t, "traefik.yaml", `apiVersion: helm.cattle.io/v1
kind: HelmChart
metadata: {name: traefik, namespace: kube-system}
spec: {chart: "https://%{KUBERNETES_API}%/static/charts/traefik-37.0.000.tgz"}
`)
	k.waitKey(t, "kube-system", "traefik", "docker.io/library/traefik:3.3.5 10.0.0.0/8")
}

// testManifests: a file with a .skip beside it is as if it was not there, and one that is deleted leaves what
// it brought.
func (k *k3sExamples) testManifests(t *testing.T) {
	manifest := func(name, value string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {key: " + value + "}\n"
	}
	k.write(t, "never.yaml.skip", "")
	k.write(t, "never.yaml", manifest("never", "x"))
	k.write(t, "before.yaml", manifest("before", "first"))
	k.waitKey(t, "default", "before", "first")
	k.write(t, "before.yaml.skip", "")
	k.write(t, "before.yaml", manifest("before", "second"))
	if err := os.Remove(k.c.host.Path(manifestsDir + "/apache.yaml")); err != nil {
		t.Fatal(err)
	}
	k.write(t, "zlast.yaml", manifest("last", "x"))
	k.waitKey(t, "default", "last", "x")
	k.waitKey(t, "default", "before", "first")
	if _, err := k.c.client.CoreV1().ConfigMaps("default").Get(t.Context(), "never",
		metav1.GetOptions{}); wantNotFound(err) != nil {
		t.Errorf("what is skipped is there: %v", err)
	}
	if chart := k.chart(t, "apache"); chart == "" || strings.Contains(chart, "deletionTimestamp") {
		t.Errorf("the HelmChart of the deleted file: %q", chart)
	}
}

// testVolume: the claim is bound, and the pod writes to a directory of the node.
func (k *k3sExamples) testVolume(t *testing.T) {
	for _, name := range []string{"pvc.yaml", "pod.yaml"} {
		file, _ := k3sExample(t, name)
		k.c.must(t, "kubectl", "create", "-f", file)
	}
	k.c.waitPodReady(t, "default", "volume-test")
	volume := k.c.volumeOf(t, "default", "local-path-pvc")
	if _, err := k.c.exec(t.Context(), "default", "volume-test", "", "/bin/busybox", "sh", "-c",
		"echo kept >/data/word"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(k.c.host.Path(dataDir + "/storage/" + volume.Name + "_default_local-path-pvc/word"))
	if err != nil || string(b) != "kept\n" || volume.Status.Phase != corev1.VolumeBound {
		t.Errorf("the directory of the volume, which is %s, has %q, %v", volume.Status.Phase, b, err)
	}
}

// testObjects: network policies are taken, and a pod waits for a node that has a GPU.
func (k *k3sExamples) testObjects(t *testing.T) {
	for _, name := range []string{"network-policies.yaml", "nvidia-class.yaml", "nvidia.yaml"} {
		file, _ := k3sExample(t, name)
		k.c.must(t, "kubectl", "apply", "-f", file)
	}
	k.c.waitPod(t, "default", "nbody-gpu-benchmark", "cannot be placed", func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
		})
	})
}
