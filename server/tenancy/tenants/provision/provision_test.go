package provision

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// sleepers are tenants of which every one is dormant.
type sleepers struct{}

func (sleepers) Get(_ context.Context, name string) (*tenantapi.Tenant, error) {
	t := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}}
	t.Status.Conditions = []metav1.Condition{tenantapi.DormantCondition(metav1.Now())}
	return t, nil
}

func (sleepers) Known(string) *tenantapi.Tenant { return nil }

// collecting is a heap that is being collected until it is released.
type collecting struct {
	waits   chan struct{}
	release chan struct{}
}

func (c collecting) Wait(context.Context) {
	close(c.waits)
	<-c.release
}

func (collecting) Tenant() {}

// TestNoSpaceIsMadeDuringACollection, and a server that cannot make it now says so
// in words that clients try again after.
func TestNoSpaceIsMadeDuringACollection(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusInsufficientStorage)
	}))
	defer server.Close()
	growth := collecting{waits: make(chan struct{}), release: make(chan struct{})}
	p, err := New(Options{
		Config: &restclient.Config{Host: server.URL}, Tenants: sleepers{}, Growth: growth,
		Has: func(_, _ sets.Set[string]) bool { return false }, Log: logrus.NewEntry(logrus.New()),
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- p.Ensure(t.Context(), "t1") }()
	<-growth.waits
	if n := requests.Load(); n > 0 {
		t.Errorf("%d requests during the collection", n)
	}
	// Who does not wait any longer is let go.
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := p.Ensure(gone, "t1"); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that is gone gets %v", err)
	}
	close(growth.release)
	err = <-done
	if seconds, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsServiceUnavailable(err) || !ok || seconds < 1 {
		t.Errorf("a space that cannot be made: %v, try again after %d s", err, seconds)
	}
	if requests.Load() == 0 {
		t.Error("nothing was tried")
	}
}

// TestASpaceIsReportedWhenAllIsMade: what nobody makes later is there before the space is reported to be made, because
// the server can be killed at any moment. Its requests are those of a controller, which wait for no space.
func TestASpaceIsReportedWhenAllIsMade(t *testing.T) {
	var mu sync.Mutex
	var made, reported []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		code := http.StatusConflict // it is there
		switch {
		case r.Method == http.MethodPost:
			made = append(made, r.Header.Get("Impersonate-User")+r.URL.Path)
		case len(reported) == 0:
			reported, code = slices.Clone(made), http.StatusNotFound
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","code":%d,"reason":%q}`, code,
			map[int]string{http.StatusConflict: "AlreadyExists", http.StatusNotFound: "NotFound"}[code])
	}))
	defer server.Close()
	p, err := New(Options{
		Config: &restclient.Config{Host: server.URL}, Tenants: unmade{}, Growth: freely{},
		Has: func(_, _ sets.Set[string]) bool { return false }, Log: logrus.NewEntry(logrus.New()),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Ensure(t.Context(), "t1"); !apierrors.IsNotFound(err) {
		t.Fatalf("its tenant is gone: %v", err)
	}
	const in = "system:kube-controller-manager"
	for _, path := range []string{"/api/v1/namespaces", in + "/api/v1/namespaces/kube-system.t1/configmaps",
		in + "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system.t1/roles"} {
		if !slices.Contains(reported, path) {
			t.Errorf("%s comes later than the report: %q", path, reported)
		}
	}
}

// TestASpaceCanDoWithoutSome: not if they could not be made now, but if there is no room for them.
func TestASpaceCanDoWithoutSome(t *testing.T) {
	for code, c := range map[int]struct {
		reason metav1.StatusReason
		fails  bool
	}{
		http.StatusForbidden:           {metav1.StatusReasonForbidden, false},
		http.StatusConflict:            {metav1.StatusReasonAlreadyExists, false},
		http.StatusInternalServerError: {metav1.StatusReasonInternalError, true},
		http.StatusGatewayTimeout:      {metav1.StatusReasonTimeout, true},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, _ = fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","code":%d,"reason":%q}`, code,
				c.reason)
		}))
		client, err := kubernetes.NewForConfig(&restclient.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		err = extensionDefaults(t.Context(), client, "t1", logrus.NewEntry(logrus.New()))
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", c.reason, err)
		}
		server.Close()
	}
}

// unmade are tenants whose space is to be made without a request.
type unmade struct{ sleepers }

func (unmade) Get(_ context.Context, name string) (*tenantapi.Tenant, error) {
	return &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

// freely is a heap that nobody waits for.
type freely struct{}

func (freely) Wait(context.Context) {}
func (freely) Tenant()              {}

// TestRequestsWaitForEverySpace: also for one that the controller makes, which can be late.
func TestRequestsWaitForEverySpace(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusInsufficientStorage)
	}))
	defer server.Close()
	p, err := New(Options{
		Config: &restclient.Config{Host: server.URL}, Tenants: unmade{}, Growth: freely{},
		Has: func(_, _ sets.Set[string]) bool { return false }, Log: logrus.NewEntry(logrus.New()),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Ensure(t.Context(), "t1"); !apierrors.IsServiceUnavailable(err) || requests.Load() == 0 {
		t.Errorf("%v after %d requests", err, requests.Load())
	}
}

// TestDefaultsAreNotWaitedForByTheirMakers: the controllers that make what pods need go on in
// a namespace of a space that is being made, and others wait for it.
func TestDefaultsAreNotWaitedForByTheirMakers(t *testing.T) {
	growth := collecting{waits: make(chan struct{}), release: make(chan struct{})}
	p, err := New(Options{
		Config: &restclient.Config{Host: "http://127.0.0.1:1"}, Tenants: sleepers{}, Growth: growth,
		Has: func(_, _ sets.Set[string]) bool { return false }, Log: logrus.NewEntry(logrus.New()),
	})
	if err != nil {
		t.Fatal(err)
	}
	allow := authorizer.AuthorizerFunc(func(
		context.Context, authorizer.Attributes,
	) (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", nil
	})
	ask := func(ctx context.Context, name string) error {
		ctx = request.WithRequestInfo(ctx, &request.RequestInfo{Namespace: space.Namespace("t1", "default")})
		_, _, err := p.Authorizer(allow).Authorize(ctx, authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: name}, ResourceRequest: true})
		return err
	}
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- ask(ctx, "system:serviceaccount:kube-system:an-operator") }()
	<-growth.waits
	for _, maker := range []string{"service-account-controller", "root-ca-cert-publisher"} {
		if err := ask(t.Context(), "system:serviceaccount:kube-system:"+maker); err != nil {
			t.Errorf("%s: %v", maker, err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	in := request.WithRequestInfo(ended, &request.RequestInfo{Namespace: space.Namespace("t1", "default")})
	for name, waits := range map[string]bool{"system:a4s-supervisor": false, "admin": true} {
		_, _, err := p.Authorizer(allow).Authorize(in, authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: name}, Verb: "impersonate-on:user-info:create", Resource: "roles",
			ResourceRequest: true})
		if (err != nil) != waits {
			t.Errorf("%s, who wants to be somebody else: %v", name, err)
		}
	}
	leave()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("an operator does not wait for the space: %v", err)
	}
	close(growth.release)
}
