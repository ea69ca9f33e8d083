package spaces_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/restmapper"

	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/tests/nstest"
)

// TestAnnouncedKinds plants an object of each kind that discovery announces in
// tenants, and reads there as tools do that go through all that discovery names:
// lists are empty, nothing is found by its name, and writes are refused with the
// reason.
func TestAnnouncedKinds(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	a := p.bareTenant(t, "a")
	system, err := dynamic.NewForConfig(p.Admin)
	if err != nil {
		t.Fatal(err)
	}
	own, err := dynamic.NewForConfig(a.config)
	if err != nil {
		t.Fatal(err)
	}
	heads, err := metadata.NewForConfig(a.config)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := discovery.ServerPreferredResources(a.client.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	testShortNames(t, a)
	const word = "zqcanaryzq"
	specs := announcedSpecs(t, word)
	for _, k := range kinds.Rows() {
		if !k.Announced || k.Resource == "daemonsets" {
			continue
		}
		t.Run(k.Resource, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			gvr, verbs := announcedAs(lists, k)
			if want := "get list watch create"; strings.Join(verbs, " ") != want {
				t.Fatalf("its verbs in discovery: %v, want %s", verbs, want)
			}
			content, ok := specs[k.Resource]
			if !ok {
				t.Fatal("the test has no object of it")
			}
			obj := &unstructured.Unstructured{Object: map[string]any{}}
			if err := obj.UnmarshalJSON([]byte(`{"apiVersion":"` + gvr.GroupVersion().String() + `","kind":"` +
				k.Kind + `",` + content + `}`)); err != nil {
				t.Fatal(err)
			}
			name, namespace := obj.GetName(), ""
			if k.Namespaced {
				namespace = metav1.NamespaceDefault
			}
			if name == "" {
				name = word
				obj.SetName(name)
			}
			obj.SetLabels(map[string]string{"planted": word})
			if _, err := system.Resource(gvr).Namespace(namespace).
				Create(ctx, obj, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			mine := own.Resource(gvr).Namespace(namespace)
			for _, o := range []metav1.ListOptions{{}, {Limit: 1}, {ResourceVersion: "0"},
				{LabelSelector: "planted=" + word}, {FieldSelector: "metadata.name=" + name}} {
				list, err := mine.List(ctx, o)
				if err != nil || len(list.Items) != 0 || list.GetContinue() != "" ||
					list.GetRemainingItemCount() != nil {
					t.Errorf("list %v: %v, %v", o, list, err)
				}
			}
			if list, err := heads.Resource(gvr).Namespace(namespace).List(ctx, metav1.ListOptions{}); err != nil ||
				len(list.Items) != 0 {
				t.Errorf("list of heads: %v, %v", list, err)
			}
			if got, err := mine.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("get: %v, %v", got, err)
			}
			testAnnouncedWatch(t, mine)
			path := "/apis/" + gvr.GroupVersion().String() + "/"
			if namespace != "" {
				path += "namespaces/" + namespace + "/"
			}
			for _, method := range []string{http.MethodPost, http.MethodDelete} {
				if code, body := do(t, a.config, method, path+gvr.Resource, `{"metadata":{"name":"x"}}`,
					nil); code != http.StatusForbidden || !strings.Contains(body, k.Why) {
					t.Errorf("%s: %d %s", method, code, body)
				}
			}
			if code, body := do(t, a.config, http.MethodDelete, path+gvr.Resource+"/"+name, "",
				nil); code != http.StatusForbidden || !strings.Contains(body, k.Why) {
				t.Errorf("delete: %d %s", code, body)
			}
			for _, q := range []string{"?watch=1&timeoutSeconds=1",
				"?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3D" + name, "?sendInitialEvents=true&watch=1&" +
					"timeoutSeconds=1&allowWatchBookmarks=1&resourceVersionMatch=NotOlderThan"} {
				if code, body := get(t, a.config, path+gvr.Resource+q); code != http.StatusOK ||
					strings.Contains(body, "planted") {
					t.Errorf("%s: %d %.300s", q, code, body)
				}
			}
		})
	}
}

// testShortNames expects that clients which map names to resources find those that a tenant has not,
// as in a cluster.
func testShortNames(t *testing.T, s *space) {
	t.Helper()
	found, err := restmapper.GetAPIGroupResources(s.client.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewShortcutExpander(restmapper.NewDiscoveryRESTMapper(found), s.client.Discovery(),
		func(warning string) { t.Error(warning) })
	for name, kind := range map[string]string{"no": "Node", "nodes": "Node", "ds": "DaemonSet",
		"csr": "CertificateSigningRequest", "ip": "IPAddress", "ipaddresses": "IPAddress"} {
		gvk, err := mapper.KindFor(schema.GroupVersionResource{Resource: name})
		if err != nil || gvk.Kind != kind {
			t.Errorf("%s is %v, %v, want %s", name, gvk, err, kind)
			continue
		}
		if _, err := mapper.RESTMapping(gvk.GroupKind()); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// testAnnouncedWatch expects that nothing is seen of what there is.
func testAnnouncedWatch(t *testing.T, mine dynamic.ResourceInterface) {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	seconds := int64(1)
	events, err := mine.Watch(ctx, metav1.ListOptions{TimeoutSeconds: &seconds})
	if err != nil {
		t.Error(err)
		return
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		t.Errorf("a watch sees %v", e)
	}
}

// announcedAs is how discovery names a kind.
func announcedAs(lists []*metav1.APIResourceList, k kinds.Kind) (gvr schema.GroupVersionResource, verbs []string) {
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || gv.Group != k.Group {
			continue
		}
		for _, r := range list.APIResources {
			if r.Name == k.Resource {
				return gv.WithResource(r.Name), r.Verbs
			}
		}
	}
	return gvr, nil
}

// announcedSpecs is, by resource, what an object of it has besides its type.
func announcedSpecs(t *testing.T, word string) map[string]string {
	return map[string]string{
		"certificatesigningrequests": `"spec":{"signerName":"example.com/` + word +
			`","usages":["digital signature"],"request":"` + signingRequest(t, word) + `"}`,
		"flowschemas": `"spec":{"priorityLevelConfiguration":{"name":"exempt"},` +
			`"matchingPrecedence":9000}`,
		"prioritylevelconfigurations": `"spec":{"type":"Limited","limited":{"nominalConcurrencyShares":1,` +
			`"limitResponse":{"type":"Reject"}}}`,
		"ipaddresses": `"metadata":{"name":"192.0.2.77"},"spec":{"parentRef":{"resource":"services",` +
			`"namespace":"default","name":"` + word + `"}}`,
		"servicecidrs": `"spec":{"cidrs":["192.0.2.0/24"]}`,
		"resourceslices": `"spec":{"driver":"` + word + `.example.com","nodeName":"` + word +
			`","pool":{"name":"p","generation":1,"resourceSliceCount":1}}`,
		"csinodes":             `"spec":{"drivers":[{"name":"` + word + `.example.com","nodeID":"x"}]}`,
		"csistoragecapacities": `"storageClassName":"` + word + `"`,
		"volumeattachments": `"spec":{"attacher":"` + word +
			`.example.com","nodeName":"x","source":{"persistentVolumeName":"x"}}`,
	}
}

// signingRequest is a request for a certificate, as it is sent.
func signingRequest(t *testing.T, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}
