package spaces_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// review is one call of a webhook, and its bytes.
type review struct {
	*admissionv1.AdmissionRequest
	raw string
}

// hooks is a server of webhooks. What a path answers is set by respond; any
// other path allows everything.
type hooks struct {
	*httptest.Server
	ca      []byte
	address string
	port    int32

	mu      sync.Mutex
	seen    map[string][]review
	answers map[string]func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse
	held    map[string]func(context.Context, *admissionv1.AdmissionRequest)
}

// newHooks serves outside of the cluster, and as Service hook in namespace
// default.
func newHooks(t *testing.T) *hooks {
	t.Helper()
	return newHooksAt(t, listenOutside(t, "", 0))
}

func newHooksAt(t *testing.T, listener net.Listener) *hooks {
	t.Helper()
	at, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("listens at %v", listener.Addr())
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hooks"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"hook.default.svc"}, IPAddresses: []net.IP{at.IP},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	h := &hooks{
		ca:      pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		seen:    map[string][]review{},
		answers: map[string]func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse{},
		held:    map[string]func(context.Context, *admissionv1.AdmissionRequest){},
	}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(h.serve))
	h.Listener.Close() //nolint:errcheck // it is replaced
	h.Listener, h.address, h.port = listener, at.IP.String(), int32(at.Port)
	h.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	h.StartTLS()
	t.Cleanup(h.Close)
	return h
}

func (h *hooks) serve(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var in admissionv1.AdmissionReview
	if err != nil || json.Unmarshal(body, &in) != nil || in.Request == nil {
		http.Error(w, "not a review", http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.seen[req.URL.Path] = append(h.seen[req.URL.Path], review{in.Request, string(bytes.TrimSpace(body))})
	answer, hold := h.answers[req.URL.Path], h.held[req.URL.Path]
	h.mu.Unlock()
	if hold != nil {
		hold(req.Context(), in.Request)
	}
	out := &admissionv1.AdmissionResponse{Allowed: true}
	if answer != nil {
		out = answer(in.Request)
	}
	out.UID = in.Request.UID
	in.Request, in.Response = nil, out
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(in) // whoever asked has gone
}

func (h *hooks) respond(path string, f func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers[path] = f
}

// hold has the answers of a path wait for f, whose context ends with the call.
func (h *hooks) hold(path string, f func(context.Context, *admissionv1.AdmissionRequest)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[path] = f
}

// calls are those of a path about the objects of a name ("" for all).
func (h *hooks) calls(path, name string) []review {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []review
	for _, r := range h.seen[path] {
		if name == "" || r.Name == name || strings.Contains(r.raw, `"name":"`+name+`"`) {
			found = append(found, r)
		}
	}
	return found
}

// patch is the answer that changes the object.
func patch(ops string) func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		kind := admissionv1.PatchTypeJSONPatch
		return &admissionv1.AdmissionResponse{Allowed: true, PatchType: &kind, Patch: []byte(ops)}
	}
}

func deny(message string) func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: message}}
	}
}

// byURL is how a webhook at path is called by address.
func (h *hooks) byURL(path string) admissionregistrationv1.WebhookClientConfig {
	url := h.URL + path
	return admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: h.ca}
}

// byService is how it is called by the Service hook.
func (h *hooks) byService(path string) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{
		Service:  &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "hook", Path: &path},
		CABundle: h.ca,
	}
}

// rules are about every operation on these core resources.
func rules(resources ...string) []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create,
			admissionregistrationv1.Update, admissionregistrationv1.Delete},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
			Resources: resources},
	}}
}

func mutating(
	name string, cc admissionregistrationv1.WebhookClientConfig, resources ...string,
) admissionregistrationv1.MutatingWebhook {
	none := admissionregistrationv1.SideEffectClassNone
	return admissionregistrationv1.MutatingWebhook{
		Name: name + ".example.com", ClientConfig: cc, Rules: rules(resources...), SideEffects: &none,
		AdmissionReviewVersions: []string{"v1"},
	}
}

func validating(
	name string, cc admissionregistrationv1.WebhookClientConfig, resources ...string,
) admissionregistrationv1.ValidatingWebhook {
	none := admissionregistrationv1.SideEffectClassNone
	return admissionregistrationv1.ValidatingWebhook{
		Name: name + ".example.com", ClientConfig: cc, Rules: rules(resources...), SideEffects: &none,
		AdmissionReviewVersions: []string{"v1"},
	}
}
