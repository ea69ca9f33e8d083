package spaces_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/tests/nstest"
)

// page is a server in a pod, which says what it was told.
func page(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("X-Told", req.URL.RequestURI()+" "+req.Header.Get("X-Forwarded-Uri"))
	switch req.URL.Path {
	case "/away":
		w.Header().Set("Location", "/there/?x=y")
		w.WriteHeader(http.StatusFound)
	case "/missing", "/gone":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		body := `["default.b",1]`
		if req.URL.Path == "/gone" {
			body = `{"kind":"Thing","metadata":{"namespace":"default.b","name":"x"}}`
		}
		io.WriteString(w, body) //nolint:errcheck // the test sees what comes
	default:
		w.Header().Set("Content-Type", "text/html")
		http.SetCookie(w, &http.Cookie{Name: "c", Value: "v", Path: "/there"})
		// the test sees what comes
		io.WriteString(w, `<a href="/there/">there</a><a href="here">here</a>`) //nolint:errcheck // see above
	}
}

// TestProxiesShowTheClientsPath: where pods and Services are proxied, the client
// and the proxied server see the path by which the client asked, in each of its
// forms.
func TestProxiesShowTheClientsPath(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a := p.tenant(t, "a")
	if _, err := p.admin.CoreV1().Nodes().Create(t.Context(),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: otherNode}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	listener := listenOutside(t, "10.42.0.5", 0)
	server := &http.Server{Handler: http.HandlerFunc(page), ReadHeaderTimeout: time.Minute}
	go server.Serve(listener)                //nolint:errcheck // it ends with the test
	t.Cleanup(func() { _ = server.Close() }) // nothing is asked any more
	_, port, _ := strings.Cut(listener.Addr().String(), ":")
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	p.running(t, a, "own", "10.42.0.5", corev1.PodRunning)
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "own"},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt(number)}}}}
	if _, err := a.client.CoreV1().Services("default").Create(t.Context(), svc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ask := func(cfg *rest.Config, path string) (code int, header http.Header, body string) {
		t.Helper()
		client, err := rest.HTTPClientFor(cfg)
		if err != nil {
			t.Fatal(err)
		}
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cfg.Host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // it was read to its end
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header, string(answer)
	}
	eventually(t, "the proxies to reach the pod", func(context.Context) (bool, error) {
		code, _, _ := ask(a.config, "/api/v1/namespaces/default/services/web:80/proxy/")
		podCode, _, _ := ask(a.config, "/api/v1/namespaces/default/pods/own:"+port+"/proxy/")
		return code == http.StatusOK && podCode == http.StatusOK, nil
	})
	for _, form := range []struct {
		as   *rest.Config
		root string
	}{
		{a.config, "/api/v1/namespaces/default"}, {a.config, "/tenants/a/api/v1/namespaces/default"},
		{a.config, "/api/v1/tenants/a/namespaces/default"},
		{p.Admin, "/tenants/a/api/v1/namespaces/default"}, {p.Admin, "/api/v1/tenants/a/namespaces/default"},
		{p.Admin, "/api/v1/namespaces/default.a"}, // the view of the cluster
	} {
		for _, of := range []string{"/pods/own:" + port, "/services/web:80", "/services/http:web:"} {
			at := form.root + of + "/proxy"
			seen := ""
			check := func(path string, code int, header, body string) {
				t.Helper()
				gotCode, gotHeader, gotBody := ask(form.as, at+path)
				got := fmt.Sprintf("%s %s %s", gotHeader.Get("Location"), gotHeader.Get("X-Told"),
					gotHeader.Get("Set-Cookie"))
				if gotCode != code || !strings.Contains(got, header) || gotBody != body {
					t.Errorf("%s: %d %q\n%s\nwant %d %q\n%s", at+path, gotCode, got, gotBody, code, header, body)
				}
				seen += got + gotBody
			}
			links := `<a href="` + at + `/there/">there</a><a href="here">here</a>`
			check("", http.StatusMovedPermanently, at+"/ ", "")
			check("?a=b", http.StatusMovedPermanently, at+"/?a=b ", "")
			check("/", http.StatusOK, "/ "+at+"/ c=v; Path=/there", links)
			check("/deep/path/?a=b&watch=1", http.StatusOK, "/deep/path/?a=b&watch=1 "+at+"/deep/path/ ", links)
			check("//deep/../path", http.StatusOK, "/path "+at+"/path ", links)
			check("/deep/a%20b", http.StatusOK, "/deep/a%20b "+at+"/deep/a%20b ", links)
			check("/away", http.StatusFound, at+"/there/?x=y /away "+at+"/away ", "")
			check("/missing", http.StatusNotFound, "/missing "+at+"/missing ", `["default.b",1]`)
			check("/gone", http.StatusNotFound, "/gone "+at+"/gone ",
				`{"kind":"Thing","metadata":{"namespace":"default.b","name":"x"}}`)
			if !strings.Contains(form.root, "default.a") && strings.Contains(seen, "default.a") {
				t.Errorf("%s shows composite names: %s", at, seen)
			}
		}
	}
	// What the API server says itself is shown as everything else.
	if code, _, body := ask(a.config, "/tenants/a/api/v1/namespaces/default/pods/nobody/proxy/"); code !=
		http.StatusNotFound || strings.Contains(body, "default.a") {
		t.Errorf("no such pod: %d %s", code, body)
	}
}
