package authn

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/http"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	testingclock "k8s.io/utils/clock/testing"
)

func TestCertificatesAreVerifiedOnceInAWhile(t *testing.T) {
	ca := newCA(t)
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	upstream := x509request.New(x509.VerifyOptions{
		Roots:     pool,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, x509request.CommonNameUserConversion)
	asked, revoked := 0, false
	inner := authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		if asked++; revoked {
			return nil, false, errors.New("the authority is another one now")
		}
		return upstream.AuthenticateRequest(req)
	})
	a, ok := Wrap(inner, Options{}).(*tenanted)
	if !ok {
		t.Fatal("another type")
	}
	clock := testingclock.NewFakePassiveClock(time.Now())
	a.verified.clock = clock

	ask := func(cert *x509.Certificate, header ...string) (name string, verified bool) {
		t.Helper()
		req := &http.Request{Header: http.Header{},
			TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}}
		for _, h := range header {
			req.Header.Set(h, "someone")
		}
		before := asked
		response, ok, err := a.AuthenticateRequest(req)
		if err != nil || !ok {
			return "", asked > before
		}
		return response.User.GetName(), asked > before
	}
	alice, bob := ca.issue(t, pkix.Name{CommonName: "alice", Organization: []string{"tenant:t1"}}),
		ca.issue(t, pkix.Name{CommonName: "bob", Organization: []string{"tenant:t1"}})
	system := ca.issue(t, pkix.Name{CommonName: "root"})
	stranger := newCA(t).issue(t, pkix.Name{CommonName: "alice", Organization: []string{"tenant:t1"}})
	for i, c := range []struct {
		what     string
		before   func()
		cert     *x509.Certificate
		header   []string
		user     string
		verified bool
	}{
		{what: "the first request", cert: alice, user: "alice", verified: true},
		{what: "the second", cert: alice, user: "alice"},
		{what: "another header", cert: alice, header: []string{"Impersonate-User"}, user: "alice"},
		{what: "another certificate", cert: bob, user: "bob", verified: true},
		{what: "for somebody else", cert: alice, header: []string{"X-Remote-User"}, user: "alice", verified: true},
		{what: "of the system", cert: system, user: "root", verified: true},
		{what: "of the system again", cert: system, user: "root", verified: true},
		{what: "not signed by the authority", cert: stranger, verified: true},
		{what: "not signed by it, again", cert: stranger, verified: true},
		{what: "after a while", before: func() { clock.SetTime(clock.Now().Add(verifiedFor + time.Second)) },
			cert: alice, user: "alice", verified: true},
		{what: "after that", cert: alice, user: "alice"},
		{what: "shortly after the authority changed", before: func() { revoked = true }, cert: alice, user: "alice"},
		{what: "later", before: func() { clock.SetTime(clock.Now().Add(verifiedFor + time.Second)) },
			cert: alice, verified: true},
		{what: "later again", cert: alice, verified: true},
		{what: "the authority is back", before: func() { revoked = false }, cert: alice,
			user: "alice", verified: true},
		{what: "what was remembered is of a certificate that is over",
			before: func() { alice.NotAfter = clock.Now().Add(-time.Second) }, cert: alice,
			user: "alice", verified: true},
	} {
		if c.before != nil {
			c.before()
		}
		if name, verified := ask(c.cert, c.header...); name != c.user || verified != c.verified {
			t.Errorf("%d, %s: user %q, verified: %t", i, c.what, name, verified)
		}
	}
}
