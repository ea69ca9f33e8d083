package edge

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
	"github.com/a4s-io/a4s/server/tenancy/fairness/ledger"
)

func TestFlowsOfRequests(t *testing.T) {
	of := func(tenant string) user.Info {
		return &user.DefaultInfo{Name: "u", Extra: map[string][]string{space.Extra: {tenant}}}
	}
	anonymous := &user.DefaultInfo{Name: user.Anonymous}
	const from = "address:192.0.2.7"
	for _, c := range []struct {
		what          string
		change        func(*http.Request)
		user          user.Info // nil: refused
		first, second string    // flows of the first and of the second request
		waits         bool      // at last
	}{
		{"a tenant's user by token", func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }, of("a"),
			from, "tenant:a", true},
		{"a tenant's user by certificate", func(r *http.Request) {
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Raw: []byte("x")}}}
		}, of("a"), from, "tenant:a", true},
		{"the system's user", func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") },
			&user.DefaultInfo{Name: "kubelet"}, from, "", false},
		{"a wrong token", func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }, nil, from, from, true},
		{"nobody", func(*http.Request) {}, anonymous, from, from, true},
		{"nobody with a token", func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") },
			anonymous, from, from, true},
		{"the server itself", func(r *http.Request) {
			r.TLS, r.RemoteAddr = &tls.ConnectionState{ServerName: "apiserver-loopback-client"}, "127.0.0.1:1"
		}, nil, "", "", false},
		{"who pretends to be the server",
			func(r *http.Request) { r.TLS = &tls.ConnectionState{ServerName: "apiserver-loopback-client"} },
			nil, from, from, true},
	} {
		q := newQueue(fairqueue.New(fairqueue.ForProcessors(2)))
		for i, want := range []string{c.first, c.second} {
			req := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
			req.RemoteAddr = "192.0.2.7:1000"
			c.change(req)
			a, err := q.enter(req, nil, "", 0)
			if err != nil {
				t.Fatal(err)
			}
			if a.flow != want || (a.seat != nil) != (want != "") {
				t.Errorf("%s, request %d: flow %q, want %q", c.what, i+1, a.flow, want)
			}
			if c.user != nil {
				if err := a.identified(t.Context(), c.user, nil); err != nil {
					t.Errorf("%s: %v", c.what, err)
				}
			}
			if (a.seat != nil) != c.waits {
				t.Errorf("%s, request %d: has a seat: %v", c.what, i+1, a.seat != nil)
			}
			a.leave()
		}
	}
}

// What a controller with a gate does about a tenant's object is counted for that tenant, and waits
// in no tenant's queue. What others do is nobody's.
func TestControllersAreChargedToTenants(t *testing.T) {
	const account = "system:serviceaccount:kube-system:"
	for _, c := range []struct{ user, path, want string }{
		{account + "replicaset-controller", "/api/v1/namespaces/default.acme/pods", "acme"},
		{account + "replicaset-controller", "/apis/apps/v1/namespaces/default.acme/replicasets/r", "acme"},
		{account + "replicaset-controller", "/api/v1/namespaces/default.acme/events", "acme"},
		{account + "replicaset-controller", "/api/v1/namespaces/default/pods", ""},
		{account + "replicaset-controller", "/api/v1/nodes", ""},
		{account + "namespace-controller", "/api/v1/namespaces/default.acme/pods", ""},
		{"system:node:n", "/api/v1/namespaces/default.acme/pods/p", ""},
	} {
		q := newQueue(fairqueue.New(fairqueue.ForProcessors(2)))
		q.use = ledger.New()
		for range 2 { // the second is known by its token
			req := httptest.NewRequest(http.MethodPost, c.path, nil)
			req.Header.Set("Authorization", "Bearer x")
			a, err := q.enter(req, nil, "", 0)
			if err != nil {
				t.Fatal(err)
			}
			r := read(req)
			r.identify(&user.DefaultInfo{Name: c.user}, req.Header)
			if err := a.identified(t.Context(), r.user, nil); err != nil {
				t.Fatal(err)
			}
			if a.seat != nil {
				t.Errorf("%s at %s has a seat of the flow %q", c.user, c.path, a.flow)
			}
			q.charge(r.worksFor(map[string]bool{account + "replicaset-controller": true}))
			a.leave()
		}
		got := map[string]int64{}
		for _, u := range q.use.LastMinute().Tenants {
			for _, w := range u.Work {
				if w.Work == "controllers" {
					got[u.Tenant] = w.Requests
				}
			}
		}
		want := map[string]int64{}
		if c.want != "" {
			want[c.want] = 2
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s at %s: %v, want %v", c.user, c.path, got, want)
		}
		q.use.Forget("acme")
	}
}

// TestFlowsOfRequestsOfOtherPartitions: the certificate of such a request is that of the
// server that sent it on, and says nothing of its user.
func TestFlowsOfRequestsOfOtherPartitions(t *testing.T) {
	q := newQueue(fairqueue.New(fairqueue.ForProcessors(2)))
	of := func(tenant string) user.Info {
		return &user.DefaultInfo{Name: "u", Extra: map[string][]string{space.Extra: {tenant}}}
	}
	system, anonymous := &user.DefaultInfo{Name: "kubelet"}, &user.DefaultInfo{Name: user.Anonymous}
	const client = "address:198.51.100.9"
	for i, c := range []struct {
		what        string
		mark        Mark
		token       string
		user        user.Info // nil: refused
		first, last string    // flows before and after the user is known
	}{
		{"a tenant's user", Mark{Tenant: "a"}, "", of("a"), "tenant:a", "tenant:a"},
		{"one of another", Mark{Tenant: "b"}, "", of("b"), "tenant:b", "tenant:b"},
		{"of the system", Mark{Tenant: space.System}, "", system, "", ""},
		{"of the first again", Mark{Tenant: "a"}, "", of("a"), "tenant:a", "tenant:a"},
		{"nobody", Mark{}, "", anonymous, client, client},
		{"a token", Mark{}, "x", of("a"), client, "tenant:a"},
		{"another", Mark{}, "y", of("b"), client, "tenant:b"},
		{"a wrong one", Mark{}, "z", nil, client, client},
		{"the first token again", Mark{}, "x", of("a"), "tenant:a", "tenant:a"},
		{"a mark that is wrong", Mark{Tenant: "a"}, "", of("b"), "tenant:a", "tenant:b"},
		{"and the next", Mark{Tenant: "a"}, "", of("a"), "tenant:a", "tenant:a"},
	} {
		req := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
		req.RemoteAddr = "192.0.2.7:1000"
		req.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Raw: []byte("front proxy")}}}
		if c.token != "" {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
		c.mark.Partition, c.mark.Address = "tp2", "198.51.100.9"
		a, err := q.enter(req, &c.mark, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		if a.flow != c.first || (a.seat != nil) != (c.first != "") {
			t.Errorf("%d, %s: flow %q, want %q", i, c.what, a.flow, c.first)
		}
		if c.user != nil {
			if err := a.identified(t.Context(), c.user, nil); err != nil {
				t.Errorf("%s: %v", c.what, err)
			}
		}
		if a.flow != c.last {
			t.Errorf("%d, %s: at last flow %q, want %q", i, c.what, a.flow, c.last)
		}
		a.leave()
	}
}

// TestQueueRefuses: who waits in vain learns when to come back.
func TestQueueRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := func() int { return 1000 }
		q := newQueue(fairqueue.New(fairqueue.Options{Seats: 1, Share: 1, Length: 1, Busy: busy}))
		ask := func() (*admission, error) {
			req := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
			return q.enter(req, nil, "", 0)
		}
		check := func(what string, err error) {
			t.Helper()
			seconds, ok := apierrors.SuggestsClientDelay(err)
			if !apierrors.IsTooManyRequests(err) || !ok || seconds < 1 {
				t.Errorf("%s: %v", what, err)
			}
		}
		holder, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		second := make(chan struct{})
		go func() {
			defer close(second)
			a, err := ask()
			if err != nil {
				t.Errorf("the second: %v", err)
				return
			}
			a.leave()
		}()
		synctest.Wait()
		_, err = ask()
		check("the third", err)
		time.Sleep(2 * time.Second) // the first lasts too long to be waited for
		<-second
		holder.leave()
	})
}

// TestRequestsAreInTheLedger: what is asked, waited and refused is the tenant's for whom it is,
// by the kind of work, and clients that nobody knows are one line.
func TestRequestsAreInTheLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := func() int { return 1000 }
		use := ledger.New()
		defer use.Forget("acme")
		q := newQueue(fairqueue.New(fairqueue.Options{Seats: 1, Share: 1, Length: 1, Busy: busy, Account: use}))
		q.use = use
		const controller = "system:serviceaccount:kube-system:replicaset-controller"
		ask := func(path, name, token string) error {
			req := httptest.NewRequest(http.MethodGet, path, nil)
			if token != "" {
				req.Header.Set("Authorization", "Bearer "+token)
			}
			r := read(req)
			a, err := q.enter(req, nil, "", r.work())
			if err != nil {
				return err
			}
			defer a.leave()
			if name != "" {
				who := userOf(name)
				if name == controller {
					who = &user.DefaultInfo{Name: name}
				}
				r.identify(who, req.Header)
				if err := a.identified(t.Context(), r.user, nil); err != nil {
					return err
				}
				q.charge(r.worksFor(map[string]bool{controller: true}))
			}
			time.Sleep(time.Second)
			return nil
		}
		for _, c := range []struct{ path, user, token string }{
			{"/api/v1/pods", "acme", "a"}, // not known yet
			{"/api/v1/pods", "acme", "a"},
			{"/api/v1/namespaces/default/pods/p", "acme", "a"},
			{"/api/v1/pods?watch=true", "acme", "a"},
			{"/api/v1/namespaces/default/pods/p/exec", "acme", "a"},
			{"/openapi/v2", "acme", "a"},
			{"/api/v1/namespaces/default.acme/pods", controller, "c"},
			{"/api/v1/namespaces/default/pods", controller, "c"}, // of the system, which does not wait
			{"/api/v1/pods", "", "wrong"},
		} {
			if err := ask(c.path, c.user, c.token); err != nil {
				t.Fatal(err)
			}
		}
		var refused sync.WaitGroup
		for range 3 { // one has the seat, one waits
			refused.Go(func() { _ = ask("/api/v1/pods", "acme", "a") })
			synctest.Wait()
		}
		refused.Wait()
		got := map[string]string{}
		for _, u := range use.LastMinute().Tenants {
			work := map[string]string{}
			for _, w := range u.Work {
				work[w.Work] = fmt.Sprintf("%d %.0f %.0f", w.Requests, w.SeatSeconds, w.WaitedSeconds)
			}
			got[u.Tenant] = fmt.Sprint(u.Requests, work, u.Refused)
		}
		want := map[string]string{
			"acme": "9 map[connections:1 1 0 controllers:1 0 0 documents:1 1 0 gets:1 1 0 lists:4 4 1 " +
				"watches:1 1 0] map[full:1]",
			ledger.Unknown: "1 map[lists:1 1 0] map[]",
		}
		if !maps.Equal(got, want) {
			t.Errorf("%v\nwant %v", got, want)
		}
	})
}
