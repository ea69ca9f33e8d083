package cmd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// fakeTenants is an API that has tenants. Its spaces become ready, its
// certificates are signed and its deletions end at the second look.
type fakeTenants struct {
	t               *testing.T
	url, kubeconfig string
	decoder         runtime.Decoder
	caKey           *ecdsa.PrivateKey
	ca              *x509.Certificate

	mu        sync.Mutex
	tenants   map[string]*tenantapi.Tenant
	looks     map[string]int
	csrs      map[string]*certificatesv1.CertificateSigningRequest
	subjects  []pkix.Name
	bindings  map[string]rbacv1.ClusterRoleBinding // by tenant/name
	requested []string
	// What the test wants to go wrong.
	stuck, forbidden, deny bool
	// members are the tenants of which the user is a member who is no administrator.
	members []string
	// lost is a tenant that has a placement only.
	lost string
	// placed is a tenant whose placement goes at the third look.
	placed string
	// external is what it says of its address; "" is nothing.
	external string
	maxLife  time.Duration
	// pods is how many run in each space, or less than none if nobody may see them.
	pods int
}

func newFakeTenants(t *testing.T, names ...string) *fakeTenants {
	t.Helper()
	noConfig(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, tenantapi.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	f := &fakeTenants{
		t: t, kubeconfig: filepath.Join(t.TempDir(), "admin.yaml"),
		decoder: serializer.NewCodecFactory(scheme).UniversalDeserializer(),
		tenants: map[string]*tenantapi.Tenant{}, looks: map[string]int{},
		csrs:     map[string]*certificatesv1.CertificateSigningRequest{},
		bindings: map[string]rbacv1.ClusterRoleBinding{}, maxLife: year,
	}
	for _, name := range names {
		f.tenants[name] = newTenant(name)
	}
	f.makeCA()
	mux := http.NewServeMux()
	handle := func(pattern string, h func(*http.Request) (int, any)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.requested = append(f.requested, r.Method+" "+r.URL.Path)
			code, out := http.StatusForbidden, any(failure(http.StatusForbidden, metav1.StatusReasonForbidden, "", ""))
			if !f.forbidden {
				code, out = h(r)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			if err := json.NewEncoder(w).Encode(out); err != nil {
				t.Error(err)
			}
		})
	}
	f.handleTenants(handle)
	f.handleSpaces(handle)
	f.handleCertificates(handle)
	srv := httptest.NewTLSServer(mux)
	t.Cleanup(srv.Close)
	f.url = srv.URL
	writeKubeconfig(t, f.kubeconfig, f.url,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
	return f
}

func newTenant(name string) *tenantapi.Tenant {
	return &tenantapi.Tenant{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Tenant"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name),
			CreationTimestamp: metav1.NewTime(time.Now().Add(-3 * time.Hour))},
		Spec: tenantapi.TenantSpec{CRDPolicy: tenantapi.LocalCRDFirst},
		Status: tenantapi.TenantStatus{Phase: tenantapi.Active, Conditions: []metav1.Condition{
			{Type: tenantapi.SpaceReady, Status: metav1.ConditionTrue, Message: "all there"}}},
	}
}

func failure(code int32, reason metav1.StatusReason, kind, name string) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: code, Reason: reason,
		Message: fmt.Sprintf("%s %q: %s", kind, name, reason), Details: &metav1.StatusDetails{Kind: kind, Name: name},
	}
}

func notFound(kind, name string) (int, any) {
	return http.StatusNotFound, failure(http.StatusNotFound, metav1.StatusReasonNotFound, kind, name)
}

type handler func(pattern string, h func(*http.Request) (int, any))

func (f *fakeTenants) decode(r *http.Request, into runtime.Object) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		_, _, err = f.decoder.Decode(body, nil, into)
	}
	if err != nil {
		f.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
	}
}

func (f *fakeTenants) handleTenants(handle handler) {
	handle("POST /api/v1/tenants", func(r *http.Request) (int, any) {
		var in tenantapi.Tenant
		f.decode(r, &in)
		if f.tenants[in.Name] != nil || f.lost == in.Name {
			return http.StatusConflict,
				failure(http.StatusConflict, metav1.StatusReasonAlreadyExists, "tenants", in.Name)
		}
		made := newTenant(in.Name)
		made.Status.Conditions[0].Status, made.Status.Conditions[0].Message = metav1.ConditionFalse,
			"making kube-system"
		f.tenants[in.Name] = made
		return http.StatusCreated, made
	})
	handle("GET /api/v1/tenants", func(*http.Request) (int, any) {
		if f.members != nil {
			refusal := failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, tenantapi.Resource, "")
			for _, name := range f.members {
				refusal.Details.Causes = append(refusal.Details.Causes,
					metav1.StatusCause{Type: tenantapi.CauseMember, Message: name})
			}
			return http.StatusBadRequest, refusal
		}
		list := tenantapi.TenantList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "TenantList"}}
		for _, t := range f.tenants {
			list.Items = append(list.Items, *t)
		}
		slices.SortFunc(list.Items, func(a, b tenantapi.Tenant) int { return strings.Compare(a.Name, b.Name) })
		return http.StatusOK, list
	})
	// A cluster of one partition, with two nodes.
	handle("GET /api", func(*http.Request) (int, any) {
		if f.external == "" {
			return notFound("", "")
		}
		return http.StatusOK, metav1.APIVersions{ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{
			{ClientCIDR: "10.43.0.0/16", ServerAddress: "10.43.0.1:443"},
			{ClientCIDR: "0.0.0.0/0", ServerAddress: f.external}}}
	})
	handle("GET /api/v1/partitions", func(*http.Request) (int, any) {
		return http.StatusOK, partitionapi.PartitionList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PartitionList"}}
	})
	handle("GET /api/v1/nodes", func(*http.Request) (int, any) {
		list := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
		for _, name := range []string{"n1", "n2"} {
			list.Items = append(list.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		return http.StatusOK, list
	})
	handle("GET /api/v1/tenants/{name}", func(r *http.Request) (int, any) {
		name := r.PathValue("name")
		t := f.tenants[name]
		if t == nil {
			return notFound("tenants", name)
		}
		out := t.DeepCopy()
		if f.looks[name]++; f.looks[name]%2 == 0 && !f.stuck {
			t.Status.Conditions[0].Status = metav1.ConditionTrue
			if t.DeletionTimestamp != nil {
				delete(f.tenants, name)
			}
		}
		return http.StatusOK, out
	})
	handle("GET /api/v1/tenantplacements/{name}", func(r *http.Request) (int, any) {
		name := r.PathValue("name")
		if f.looks["placement"]++; f.looks["placement"] > 2 {
			f.placed = ""
		}
		if name != f.lost && name != f.placed {
			return notFound("tenantplacements", name)
		}
		return http.StatusOK, partitionapi.TenantPlacement{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "TenantPlacement"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     partitionapi.TenantPlacementStatus{TenantUID: newTenant(name).UID}}
	})
	handle("DELETE /api/v1/tenants/{name}", func(r *http.Request) (int, any) {
		name := r.PathValue("name")
		t := f.tenants[name]
		var options metav1.DeleteOptions
		f.decode(r, &options)
		if t == nil && f.lost == name {
			t = newTenant(name)
			f.lost = ""
			if options.Preconditions == nil || *options.Preconditions.UID != t.UID {
				f.t.Errorf("the name is deleted with %+v", options)
			}
			return http.StatusOK, t
		}
		if options.Preconditions == nil || *options.Preconditions.UID != t.UID {
			f.t.Errorf("deleted with %+v", options)
		}
		if t.Protected() {
			refusal := failure(http.StatusForbidden, metav1.StatusReasonForbidden, "tenants", name)
			refusal.Message = "spec.deletionProtection is true"
			refusal.Details.Causes = []metav1.StatusCause{{Type: tenantapi.CauseDeletionProtected}}
			return http.StatusForbidden, refusal
		}
		f.terminate(t.Name)
		return http.StatusOK, t
	})
}

func (f *fakeTenants) terminate(name string) {
	now := metav1.Now()
	t := f.tenants[name]
	t.DeletionTimestamp, t.Status.Phase = &now, tenantapi.Terminating
	t.Status.Conditions = append(t.Status.Conditions, metav1.Condition{Type: tenantapi.SpaceEmpty,
		Status: metav1.ConditionFalse, Message: "waiting for the end of 3 pods"})
}

func (f *fakeTenants) handleSpaces(handle handler) {
	handle("GET /tenants/{tenant}/api/v1/namespaces/default", func(r *http.Request) (int, any) {
		if f.tenants[r.PathValue("tenant")] == nil {
			return notFound("namespaces", "default")
		}
		return http.StatusOK, corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	})
	handle("GET /tenants/{tenant}/api/v1/pods", func(r *http.Request) (int, any) {
		if f.pods < 0 {
			return http.StatusForbidden, failure(http.StatusForbidden, metav1.StatusReasonForbidden, "pods", "")
		}
		if got := r.URL.Query().Get("fieldSelector"); !strings.Contains(got, "status.phase!=Succeeded") {
			f.t.Errorf("pods that ended count: %q", got)
		}
		return http.StatusOK, corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
			Items: make([]corev1.Pod, f.pods)}
	})
	const rbac = "/tenants/{tenant}/apis/rbac.authorization.k8s.io/v1"
	handle("GET "+rbac+"/clusterroles/{name}", func(r *http.Request) (int, any) {
		name := r.PathValue("name")
		if name != "cluster-admin" && name != "view" {
			return notFound("clusterroles", name)
		}
		return http.StatusOK, rbacv1.ClusterRole{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
		}
	})
	handle("POST "+rbac+"/clusterrolebindings", func(r *http.Request) (int, any) {
		var in rbacv1.ClusterRoleBinding
		f.decode(r, &in)
		key := r.PathValue("tenant") + "/" + in.Name
		if _, ok := f.bindings[key]; ok {
			return http.StatusConflict,
				failure(http.StatusConflict, metav1.StatusReasonAlreadyExists, "clusterrolebindings", in.Name)
		}
		f.bindings[key] = in
		in.TypeMeta = metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"}
		return http.StatusCreated, in
	})
}

func (f *fakeTenants) handleCertificates(handle handler) {
	const requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	typ := metav1.TypeMeta{APIVersion: certificatesv1.SchemeGroupVersion.String(), Kind: "CertificateSigningRequest"}
	handle("POST "+requests, func(r *http.Request) (int, any) {
		var in certificatesv1.CertificateSigningRequest
		f.decode(r, &in)
		in.TypeMeta, in.Name = typ, in.GenerateName+"x"
		f.csrs[in.Name], f.looks[in.Name] = &in, 0
		return http.StatusCreated, in
	})
	handle("PUT "+requests+"/{name}/approval", func(r *http.Request) (int, any) {
		var in certificatesv1.CertificateSigningRequest
		f.decode(r, &in)
		csr := f.csrs[r.PathValue("name")]
		csr.Status.Conditions = in.Status.Conditions
		return http.StatusOK, csr
	})
	handle("GET "+requests+"/{name}", func(r *http.Request) (int, any) {
		name := r.PathValue("name")
		csr := f.csrs[name]
		if f.looks[name]++; f.looks[name] == 2 {
			f.sign(csr)
		}
		return http.StatusOK, csr
	})
	handle("DELETE "+requests+"/{name}", func(r *http.Request) (int, any) {
		delete(f.csrs, r.PathValue("name"))
		return http.StatusOK,
			metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}
	})
}

func (f *fakeTenants) makeCA() {
	var err error
	if f.caKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		f.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, f.caKey.Public(), f.caKey)
	if err != nil {
		f.t.Fatal(err)
	}
	if f.ca, err = x509.ParseCertificate(der); err != nil {
		f.t.Fatal(err)
	}
}

// sign is what the controller manager does with an approved request.
func (f *fakeTenants) sign(csr *certificatesv1.CertificateSigningRequest) {
	approved := len(csr.Status.Conditions) == 1 && csr.Status.Conditions[0].Type == certificatesv1.CertificateApproved
	if !approved || csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName ||
		!slices.Contains(csr.Spec.Usages, certificatesv1.UsageClientAuth) {
		f.t.Errorf("cannot sign %+v", csr)
		return
	}
	if f.deny {
		csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type:    certificatesv1.CertificateFailed,
			Status:  corev1.ConditionTrue,
			Reason:  "SignerValidationFailure",
			Message: "not like this",
		})
		return
	}
	block, _ := pem.Decode(csr.Spec.Request)
	req, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		f.t.Error(err)
		return
	}
	f.subjects = append(f.subjects, req.Subject)
	life := min(f.maxLife, time.Duration(*csr.Spec.ExpirationSeconds)*time.Second)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(2),
		Subject: req.Subject, NotAfter: time.Now().Add(life)}, f.ca, req.PublicKey, f.caKey)
	if err != nil {
		f.t.Error(err)
		return
	}
	csr.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func (f *fakeTenants) run(args ...string) (stdout, stderr string, err error) {
	f.t.Helper()
	_, stdout, stderr, err = run(f.t,
		append([]string{"tenant"}, append(args, "--kubeconfig", f.kubeconfig)...)...)
	return stdout, stderr, err
}

// checkKubeconfig looks at a kubeconfig as kubectl will.
func (f *fakeTenants) checkKubeconfig(data []byte, tenant, user, server string) {
	f.t.Helper()
	cfg, err := clientcmd.Load(data)
	if err != nil {
		f.t.Fatal(err)
	}
	if c := cfg.Contexts[cfg.CurrentContext]; cfg.CurrentContext != user+"@"+tenant || c.Namespace != "default" {
		f.t.Errorf("context %q: %+v", cfg.CurrentContext, c)
	}
	rc, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		f.t.Fatal(err)
	}
	if want := server + "/tenants/" + tenant; rc.Host != want {
		f.t.Errorf("server %q, want %q", rc.Host, want)
	}
	if _, err := tls.X509KeyPair(rc.CertData, rc.KeyData); err != nil {
		f.t.Errorf("certificate and key: %v", err)
	}
	if len(rc.CAData) == 0 {
		f.t.Error("no CA")
	}
}
