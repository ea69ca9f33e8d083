package spaces_test

//lint:file-ignore SA1019 Endpoints are deprecated, and the seed has the groups in them

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

const endpointsPath = "/api/v1/namespaces/default/endpoints"

// groupedEndpoints are Endpoints as the seed has them.
type groupedEndpoints struct {
	Metadata metav1.ObjectMeta
	Subsets  []struct {
		Addresses      []struct{ IP string }
		ServiceGroupID string `json:"serviceGroupId"`
	}
}

// text is the group and the addresses of each subset.
func (e groupedEndpoints) text() string {
	var out []string
	for _, s := range e.Subsets {
		var ips []string
		for _, a := range s.Addresses {
			ips = append(ips, a.IP)
		}
		out = append(out, s.ServiceGroupID+"="+strings.Join(ips, ","))
	}
	return strings.Join(out, " ")
}

// waitEndpoints waits until the endpoints of the API are so.
func (p *plane) waitEndpoints(t *testing.T, want string) {
	t.Helper()
	last := ""
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the endpoints of the API were %s, want %s", last, want)
		}
	})
	eventually(t, "the endpoints of the API are "+want, func(context.Context) (bool, error) {
		_, body := get(t, p.Admin, endpointsPath+"/kubernetes")
		var e groupedEndpoints
		if err := json.Unmarshal([]byte(body), &e); err != nil {
			return false, err
		}
		last = e.text()
		return last == want, nil
	})
}

// TestEndpointsOfServiceGroups: the endpoints of the API say the group of each subset in
// all encodings (seed: data-partition, "API Changes"), to users of the system.
func TestEndpointsOfServiceGroups(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, func(c *config.Server) { c.ServiceGroupID = "one" })
	own := "one=" + address
	p.waitEndpoints(t, own)
	a := p.bareTenant(t, "a")

	t.Run("JSON", func(t *testing.T) {
		for _, path := range []string{"", "?watch=1&timeoutSeconds=1&resourceVersion=0", "/kubernetes"} {
			for _, prefix := range []string{"/api/v1", "/tenants/system/api/v1"} {
				full := prefix + strings.TrimPrefix(endpointsPath, "/api/v1") + path
				says(t, p.Admin, full, "application/json", func(body string) bool {
					return strings.Count(body, `"serviceGroupId":"one"`) == 1
				})
			}
		}
	})
	t.Run("YAML", func(t *testing.T) {
		_, body := do(t, p.Admin, http.MethodGet, endpointsPath+"/kubernetes", "",
			[]string{"Accept: application/yaml"})
		if !strings.Contains(body, "serviceGroupId: one") {
			t.Error(body)
		}
	})
	t.Run("protobuf", func(t *testing.T) {
		for _, path := range []string{"", "?watch=1&timeoutSeconds=1&resourceVersion=0", "/kubernetes"} {
			media := "application/vnd.kubernetes.protobuf"
			if strings.Contains(path, "watch") {
				media += ";stream=watch"
			}
			// Field 4 of the subset, behind the port.
			says(t, p.Admin, endpointsPath+path, media, func(body string) bool {
				return strings.Count(body, "https\x10\xab2\x1a\x03TCP\x22\x03one") == 1
			})
		}
	})
	t.Run("table and tenants do not", func(t *testing.T) {
		_, table := do(t, p.Admin, http.MethodGet, endpointsPath, "", []string{
			"Accept: application/json;as=Table;v=v1;g=meta.k8s.io"})
		if !strings.Contains(table, address) || strings.Contains(table, "serviceGroupId") {
			t.Error(table)
		}
		made := `{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"mine","annotations":{"` +
			partitionapi.GroupsAnnotation + `":"7"}},` +
			`"subsets":[{"addresses":[{"ip":"192.0.2.7"}],"ports":[{"port":1}]}]}`
		if code, body := do(t, a.config, http.MethodPost, endpointsPath, made, nil); code != http.StatusCreated {
			t.Fatalf("%d %s", code, body)
		}
		for _, path := range []string{"", "/kubernetes", "/mine"} {
			_, body := get(t, a.config, endpointsPath+path)
			if strings.Contains(body, "serviceGroupId") || !strings.Contains(body, `"ip":`) {
				t.Errorf("%s: %s", path, body)
			}
		}
		_, body := get(t, p.Admin, "/api/v1/namespaces/default.a/endpoints/mine")
		if strings.Contains(body, "serviceGroupId") || !strings.Contains(body, "192.0.2.7") {
			t.Error(body)
		}
	})
	t.Run("slices", func(t *testing.T) {
		p.waitSlices(t, "kubernetes:="+address, "kubernetes-one-6443:one="+address)
	})
	t.Run("other servers", func(t *testing.T) {
		p.lease(t, "192.0.2.9", "two")
		p.waitEndpoints(t, own+" two=192.0.2.9")
		p.lease(t, "192.0.2.8", "two")
		p.waitEndpoints(t, own+" two=192.0.2.8,192.0.2.9")
		p.unlease(t, "192.0.2.9")
		p.waitEndpoints(t, own+" two=192.0.2.8")
		// One whose reconciler is upstream's, which wants one subset.
		p.lease(t, "192.0.2.7", "")
		p.waitEndpoints(t, "="+strings.Join(sorted(address, "192.0.2.7", "192.0.2.8"), ","))
		p.unlease(t, "192.0.2.7")
		p.waitEndpoints(t, own+" two=192.0.2.8")
		p.unlease(t, "192.0.2.8")
		p.waitEndpoints(t, own)
		// The slice of a group without servers is gone.
		p.waitSlices(t, "kubernetes:="+address, "kubernetes-one-6443:one="+address)
	})
}

// TestForgottenServiceGroups: a server without a group removes what one with a group
// left, which upstream's reconciler does not know of.
func TestForgottenServiceGroups(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	p.waitEndpoints(t, "="+address)
	p.waitSlices(t, "kubernetes:="+address)
	slices := p.admin.DiscoveryV1().EndpointSlices("default")
	left, err := slices.Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	left.Name, left.ResourceVersion, left.UID = "kubernetes-one-6443", "", ""
	left.Labels[partitionapi.GroupLabel] = "one"
	if _, err := slices.Create(t.Context(), left, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	note := `{"metadata":{"annotations":{"` + partitionapi.GroupsAnnotation + `":"one"}}}`
	if _, err := p.admin.CoreV1().Endpoints("default").Patch(t.Context(), "kubernetes", types.MergePatchType,
		[]byte(note), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := p.Group.Stop(); err != nil {
		t.Fatal(err)
	}
	p = &plane{Plane: planes.Start(t, p.Config)}
	p.admin = p.Client
	eventually(t, "what a server of a group left is removed", func(context.Context) (bool, error) {
		_, body := get(t, p.Admin, endpointsPath+"/kubernetes")
		return len(p.slicesOfAPI(t)) == 1 && !strings.Contains(body, partitionapi.GroupsAnnotation), nil
	})
	p.waitEndpoints(t, "="+address)
}

func sorted(s ...string) []string {
	slices.Sort(s)
	return s
}

// slicesOfAPI are name, group and addresses of those of the API.
func (p *plane) slicesOfAPI(t *testing.T) []string {
	t.Helper()
	list, err := p.admin.DiscoveryV1().EndpointSlices("default").List(t.Context(),
		metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=kubernetes"})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range list.Items {
		var ips []string
		for _, e := range s.Endpoints {
			ips = append(ips, e.Addresses...)
		}
		out = append(out, s.Name+":"+s.Labels[partitionapi.GroupLabel]+"="+strings.Join(ips, ","))
	}
	return out
}

// waitSlices waits until those of the API are these, which are written after the endpoints.
func (p *plane) waitSlices(t *testing.T, want ...string) {
	t.Helper()
	var last []string
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the slices of the API were %q, want %q", last, want)
		}
	})
	eventually(t, fmt.Sprintf("the slices of the API are %q", want), func(context.Context) (bool, error) {
		last = p.slicesOfAPI(t)
		return slices.Equal(last, want), nil
	})
}

// lease is what another server writes to say that it lives, in a group or "".
func (p *plane) lease(t *testing.T, ip, group string) {
	t.Helper()
	e := corev1.Endpoints{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"},
		Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: ip}}}}}
	if group != "" {
		e.Annotations = map[string]string{partitionapi.GroupsAnnotation: group}
		e.Subsets[0].Ports = []corev1.EndpointPort{{Port: 6443}}
	}
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.etcd.Put(t.Context(), "/registry/masterleases/"+ip, string(body)); err != nil {
		t.Fatal(err)
	}
}

func (p *plane) unlease(t *testing.T, ip string) {
	t.Helper()
	r, err := p.etcd.Delete(t.Context(), "/registry/masterleases/"+ip, clientv3.WithPrefix())
	if err != nil || r.Deleted != 1 {
		t.Fatalf("%v %+v", err, r)
	}
}
