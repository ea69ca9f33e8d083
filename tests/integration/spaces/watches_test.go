package spaces_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/websocket"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/tests/nstest"
)

// firstEvent is the first line of the answer to a watch.
func firstEvent(t *testing.T, cfg *rest.Config, path string) string {
	t.Helper()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, cfg.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it is left before its end
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil && err != io.EOF {
		t.Fatalf("%s: %v", path, err)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, line)
}

// firstMessage is the first message of a watch over a WebSocket.
func firstMessage(t *testing.T, cfg *rest.Config, path, accept string, protocols ...string) string {
	t.Helper()
	tls, err := rest.TLSConfigFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c, err := websocket.NewConfig(strings.Replace(cfg.Host, "https", "wss", 1)+path, cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	c.TlsConfig, c.Protocol, c.Header = tls, protocols, http.Header{}
	if accept != "" {
		c.Header.Set("Accept", accept)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	ws, err := c.DialContext(ctx)
	if err != nil {
		return err.Error()
	}
	defer context.AfterFunc(ctx, func() { _ = ws.Close() })() // which ends the reading
	defer ws.Close()                                          //nolint:errcheck // it is left before its end
	var message string
	if err := websocket.Message.Receive(ws, &message); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return message
}

// TestWatchesAsUpstreamTakesThem: whatever upstream takes for a watch is shown to
// a tenant as one, over HTTP and over WebSocket.
func TestWatchesAsUpstreamTakesThem(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a := p.tenant(t, "a")
	if _, err := a.client.CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.client.RbacV1().ClusterRoles().Create(t.Context(),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const maps, roles = "/api/v1/namespaces/default/configmaps", "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	native := func(what, shown string, want ...string) {
		t.Helper()
		for _, w := range append(want, `"tenant":"a"`) {
			if !strings.Contains(shown, w) {
				t.Errorf("%s shows no %s: %.500s", what, w, shown)
			}
		}
		if strings.Contains(shown, "default.a") || strings.Contains(shown, ".a.tenant") {
			t.Errorf("%s shows composite names: %.500s", what, shown)
		}
	}
	for _, watch := range []string{"watch", "watch=", "watch=true", "watch=True", "watch=1", "watch=yes",
		"watch=1&watch=0", "%77atch=%54rue", "watch=True&limit=500",
		"watch=True&sendInitialEvents=True&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=True"} {
		for path, want := range map[string]string{
			maps: `"name"`, "/tenants/a/api/v1/configmaps": `"name"`,
			"/api/v1/tenants/a/namespaces/default/configmaps": `"name"`, "/api/v1/namespaces": `"name":"`,
			maps + "?fieldSelector=metadata.name=one,metadata.namespace=default": `"name":"one"`,
			roles + "?fieldSelector=metadata.name=one":                           `"name":"one"`,
		} {
			sep := "?"
			if strings.Contains(path, "?") {
				sep = "&"
			}
			if strings.Contains(path, "fieldSelector") && strings.Contains(watch, "sendInitialEvents") {
				continue // it begins with one of all objects, which the other paths show
			}
			native(path+sep+watch, firstEvent(t, a.config, path+sep+watch), "200 ", `{"type":"ADDED"`, want)
			native("the WebSocket of "+path+sep+watch, firstMessage(t, a.config, path+sep+watch, ""),
				`{"type":"ADDED"`, want)
		}
		native(maps+"/one?"+watch, firstEvent(t, a.config, maps+"/one?"+watch), "200 ", `{"kind":"ConfigMap"`)
	}
	for _, list := range []string{"watch=0", "watch=False", "watch=0&watch=1", "Watch=1", "watch=1;", "watch=%zz"} {
		native(list, firstEvent(t, a.config, maps+"?"+list), "200 ", `{"kind":"ConfigMapList"`)
	}
	native("the old path", firstEvent(t, a.config, "/api/v1/watch/namespaces/default/configmaps/one"),
		"200 ", `{"type":"ADDED"`)

	// Over WebSocket, in other forms, and as the system's administrators see it.
	native("a table", firstMessage(t, a.config, maps+"?watch=true", "application/json;as=Table;v=v1;g=meta.k8s.io"),
		`"kind":"Table"`)
	native("metadata", firstMessage(t, a.config, maps+"?watch=true",
		"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"), `"kind":"PartialObjectMetadata"`)
	native("a protocol", firstMessage(t, a.config, maps+"?watch=true", "", "base64.binary.k8s.io"), `"ADDED"`)
	native("a tenant, as the administrator", firstMessage(t, p.Admin, "/tenants/a"+maps+"?watch=true", ""), `"ADDED"`)
	native("all tenants", firstMessage(t, p.Admin, "/api/v1/tenants/all/configmaps?watch=true&fieldSelector="+
		url.QueryEscape("metadata.name=one"), ""), `"ADDED"`)
	if shown := firstMessage(t, a.config, maps+"?watch=true",
		"application/vnd.kubernetes.protobuf"); strings.Contains(shown, "default.a") ||
		!strings.Contains(shown, "/api/v1/tenants/a/namespaces/default/configmaps/") {
		t.Errorf("protobuf: %q", shown)
	}
	if shown := firstMessage(t, p.Admin, "/api/v1/configmaps?watch=true&fieldSelector="+
		url.QueryEscape("metadata.name=one"), ""); !strings.Contains(shown, `"namespace":"default.a"`) {
		t.Errorf("the view of the cluster: %.500s", shown)
	}
	for path, want := range map[string]string{"/tenants/b" + maps + "?watch=true": "bad status",
		"/api/v1/tenantplacements?watch=true": "bad status", maps + "?watch=true&limit=x": "bad status"} {
		if shown := firstMessage(t, a.config, path, ""); !strings.Contains(shown, want) {
			t.Errorf("%s: %.500s", path, shown)
		}
	}
}
