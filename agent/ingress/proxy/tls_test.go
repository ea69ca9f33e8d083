package proxy

import (
	"crypto/tls"
	"net/http"
	"testing"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// withCertificate is a host of tenant that has a certificate.
func withCertificate(name, tenant, certificate string) joinapi.IngressLine {
	line := hostLine(name, tenant, all("backend of "+tenant))
	line.Host.Certificate = certificate
	return line
}

// tenants are two: a has a wildcard certificate, and hosts of b are below it.
func tenants(t *testing.T) *world {
	return newWorld(t, Limits{},
		backendLine("backend of a", "a", "", pod(t, says("a"))),
		backendLine("backend of b", "b", "", pod(t, says("b"))),
		certificateLine(t, "wildcard", "a", "*.foo.test"), certificateLine(t, "own", "b", "b.foo.test"),
		withCertificate("*.foo.test", "a", "wildcard"), withCertificate("b.foo.test", "b", "own"),
		withCertificate("foreign.test", "b", "wildcard"), withCertificate("none.test", "b", "missing"),
		withCertificate("plain.test", "b", ""))
}

func TestCertificates(t *testing.T) {
	w := tenants(t)
	certificateOf := func(serverName string) string {
		conn, err := (&tls.Dialer{Config: &tls.Config{ServerName: serverName, InsecureSkipVerify: true}}).
			DialContext(t.Context(), "tcp", w.https)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // it was only read
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	for serverName, want := range map[string]string{
		"a.foo.test": "wildcard", "A.FOO.test": "wildcard", "b.foo.test": "own", "foo.test": selfSignedName,
		"x.a.foo.test": selfSignedName, "foreign.test": selfSignedName, "none.test": selfSignedName,
		"plain.test": selfSignedName, "": selfSignedName,
	} {
		if got := certificateOf(serverName); got != want {
			t.Errorf("%q has the certificate %q, want %q", serverName, got, want)
		}
	}
	w.tell(withCertificate("", "a", "wildcard"))
	for _, serverName := range []string{"", "foo.test"} {
		if got := certificateOf(serverName); got != "wildcard" {
			t.Errorf("%q has the certificate %q", serverName, got)
		}
	}
	// A host without one has that of the next wider host, if both are of one tenant.
	w.tell(hostLine("mine.foo.test", "a", all("backend of a")), hostLine("its.foo.test", "b", all("backend of b")))
	if mine, its := certificateOf("mine.foo.test"), certificateOf("its.foo.test"); mine != "wildcard" ||
		its != selfSignedName {
		t.Errorf("the certificates are %q and %q", mine, its)
	}
	// One that is replaced by one of no use is none.
	w.tell(joinapi.IngressLine{Certificate: &joinapi.IngressCertificate{ID: "own", Tenant: "b", Key: []byte("x")}})
	if got := certificateOf("b.foo.test"); got != selfSignedName {
		t.Errorf("certificate %q", got)
	}
}

func TestAConnectionIsForHostsOfOneTenant(t *testing.T) {
	w := tenants(t)
	for _, c := range []struct {
		serverName, host string
		status           int
	}{
		{"a.foo.test", "a.foo.test", 200}, {"a.foo.test", "c.foo.test", 200}, {"a.foo.test", "b.foo.test", 421},
		{"b.foo.test", "plain.test", 200}, {"b.foo.test", "a.foo.test", 421}, {"a.foo.test", "unknown.test", 404},
		{"unknown.test", "a.foo.test", 200}, {"", "b.foo.test", 200},
	} {
		for name, set := range map[string]func(*http.Transport){"h2": h2OverTLS, "http/1.1": nil} {
			client := w.client(func(tr *http.Transport) {
				if set != nil {
					set(tr)
				}
				tr.TLSClientConfig.ServerName = c.serverName
			})
			r := request(t, http.MethodGet, "https://127.0.0.1/", nil) // an address has no SNI
			r.Host = c.host
			if resp, _ := do(t, client, r); resp.StatusCode != c.status {
				t.Errorf("%s: %q by a connection for %q: %s", name, c.host, c.serverName, resp.Status)
			}
		}
	}
	// The host of every other name is one of a tenant too.
	w.tell(withCertificate("", "a", ""))
	client := w.client(func(tr *http.Transport) { tr.TLSClientConfig.ServerName = "unknown.test" })
	r := request(t, http.MethodGet, "https://127.0.0.1/", nil)
	r.Host = "b.foo.test"
	if resp, _ := do(t, client, r); resp.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("%s", resp.Status)
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	w := tenants(t)
	for _, version := range []uint16{tls.VersionTLS11, tls.VersionTLS12, tls.VersionTLS13} {
		conn, err := (&tls.Dialer{Config: &tls.Config{
			InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version, NextProtos: []string{"h2"},
		}}).DialContext(t.Context(), "tcp", w.https)
		if (err == nil) != (version >= tls.VersionTLS12) {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err == nil {
			if got := conn.(*tls.Conn).ConnectionState().NegotiatedProtocol; got != "h2" {
				t.Errorf("protocol %q", got)
			}
			conn.Close() //nolint:errcheck // it was only read
		}
	}
}
