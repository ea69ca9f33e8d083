package proxy

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/transport"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/controlplane/failure"
	"github.com/a4s-io/a4s/server/partition/connect"
)

const (
	// headerMark names the partition whose server sent a request on, headerUID the Tenant
	// that its user belongs to.
	headerMark = "A4s-Partition"
	headerUID  = "A4s-Tenant-Uid"
	// frontProxy begins the headers in which a front proxy says for whom it asks.
	frontProxy = "X-Remote-"
	// headerFor has the address that a request came from.
	headerFor = "X-Forwarded-For"

	// longest is how long a request may take that is not a stream: a little more than the
	// server behind allows.
	longest = 65 * time.Second
	// retryAfter has clients of Kubernetes try again, up to ten times.
	retryAfter = 1
)

// Proxy sends requests on.
type Proxy struct {
	self  string
	peers *connect.Peers
	roots *x509.CertPool // of front proxies
	log   *logrus.Entry
}

// New returns the proxy of a server of partition self.
func New(self string, p *connect.Peers, files *pki.Files, log *logrus.Entry) (*Proxy, error) {
	bundle, err := os.ReadFile(files.RequestHeaderCA.Cert)
	if err != nil {
		return nil, fmt.Errorf("reading the request-header CA: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("the request-header CA %s has no certificate", files.RequestHeaderCA.Cert)
	}
	return &Proxy{self: self, peers: p, roots: roots, log: log}, nil
}

// Mark is what is known of a request that another partition sent on.
type Mark struct {
	// Partition sent it.
	Partition string
	// TenantUID is the Tenant of its user, "" for users of the system and for those whom
	// this server has to authenticate.
	TenantUID types.UID
	// Tenant is that of its user, "" if this server has to authenticate them.
	Tenant string
	// Address is where the request came from, "" if that is not said.
	Address string
}

// Received takes the mark off a request. It is nil for a request of a client, whatever
// headers that has.
func (p *Proxy) Received(req *http.Request) *Mark {
	from, uid := req.Header.Get(headerMark), req.Header.Get(headerUID)
	req.Header.Del(headerMark)
	req.Header.Del(headerUID)
	if from == "" || !p.fromFrontProxy(req) {
		return nil
	}
	m := &Mark{Partition: from, TenantUID: types.UID(uid), Address: req.Header.Get(headerFor)}
	if said := req.Header.Values(frontProxy + "Extra-" + url.PathEscape(space.Extra)); len(said) == 1 {
		m.Tenant = said[0]
	}
	return m
}

// fromFrontProxy reports whether an API server of the cluster is at the other end.
func (p *Proxy) fromFrontProxy(req *http.Request) bool {
	if req.TLS == nil || len(req.TLS.PeerCertificates) == 0 {
		return false
	}
	chain := req.TLS.PeerCertificates
	if chain[0].Subject.CommonName != pki.UserAuthProxy {
		return false
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: p.roots, Intermediates: between,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil
}

// Target is where a request goes, and for whom.
type Target struct {
	Partition string
	// User is who asks; nil leaves it to the other side, which gets the bearer token.
	User user.Info
	// TenantUID is the Tenant of the user.
	TenantUID types.UID
	// Long requests take as long as the client likes.
	Long bool
}

// Forward sends a request on and answers with what comes back.
func (p *Proxy) Forward(w http.ResponseWriter, req *http.Request, to Target) {
	upgrade := httpstream.IsUpgradeRequest(req)
	if !to.Long && !upgrade {
		ctx, cancel := context.WithTimeout(req.Context(), longest)
		defer cancel()
		req = req.WithContext(ctx)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { p.rewrite(r, to) },
		Transport:     p.peers.Transport(to.Partition, upgrade),
		FlushInterval: -1, // watches
		ModifyResponse: func(resp *http.Response) error {
			if resp.StatusCode != http.StatusSwitchingProtocols { // whose body is the connection
				resp.Body = answered{resp.Body}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, req *http.Request, err error) {
			p.failed(w, req, to.Partition, err)
		},
		ErrorLog: nil,
	}
	proxy.ServeHTTP(w, req)
}

// answered is the body of an answer. Closing it waits until the body of the request is sent
// (golang/go#80085). A client that is refused before it has sent its body sends no more of
// it and waits for the end of the answer, so the proxy must not wait: what is being closed
// ends with the request.
type answered struct{ io.ReadCloser }

// Close implements io.Closer.
func (a answered) Close() error {
	go a.ReadCloser.Close() //nolint:errcheck // the answer is read to its end, or is of no use
	return nil
}

// rewrite makes the request that is sent on. Headers that the client wanted to be dropped
// on the way are gone already.
func (p *Proxy) rewrite(r *httputil.ProxyRequest, to Target) {
	r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "https", strings.TrimPrefix(connect.URL, "https://"), ""
	for name := range r.Out.Header {
		if strings.HasPrefix(http.CanonicalHeaderKey(name), frontProxy) {
			delete(r.Out.Header, name)
		}
	}
	r.Out.Header.Set(headerMark, p.self)
	r.SetXForwarded()
	if to.User == nil {
		return
	}
	r.Out.Header.Del("Authorization")
	extra := map[string][]string{}
	for key, values := range to.User.GetExtra() {
		extra[key] = values
	}
	if len(extra[space.Extra]) == 0 {
		// Said, because who says nothing is of the default tenant.
		extra[space.Extra] = []string{space.System}
	}
	transport.SetAuthProxyHeaders(r.Out, to.User.GetName(), to.User.GetUID(), to.User.GetGroups(), extra)
	if to.TenantUID != "" {
		r.Out.Header.Set(headerUID, string(to.TenantUID))
	}
}

// failed answers a request that could not be sent on.
func (p *Proxy) failed(w http.ResponseWriter, req *http.Request, partition string, err error) {
	if req.Context().Err() != nil && !errors.Is(req.Context().Err(), context.DeadlineExceeded) {
		return // the client is gone
	}
	p.log.WithError(err).WithField("partition", partition).Warn("a request could not be sent on")
	code, reason := int32(http.StatusServiceUnavailable), metav1.StatusReasonServiceUnavailable
	text := "partition " + partition + " of the cluster cannot be reached now"
	if errors.Is(err, context.DeadlineExceeded) && req.Context().Err() != nil {
		code, reason = http.StatusGatewayTimeout, metav1.StatusReasonTimeout
		text = "partition " + partition + " of the cluster did not answer in time"
	}
	failure.Write(w, failure.Again(code, reason, retryAfter, text))
}
