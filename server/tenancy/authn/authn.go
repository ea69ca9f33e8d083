package authn

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/netip"
	"sync/atomic"

	"github.com/sirupsen/logrus"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// Options configures Wrap.
type Options struct {
	// DefaultTenant is the tenant of users who name none, "" for system.
	DefaultTenant string
	// Groups are the tenants of which members of groups are members; nil for none.
	Groups tenantapi.Groups
	// TokenFile knows the tenants of the tokens in --token-auth-file, see
	// NewTokenFile. Upstream reads the same file and ignores their column.
	TokenFile authenticator.Token
	// Tenants tells a tenant from a former one of its name; nil to believe
	// every certificate.
	Tenants Tenants
	// Issuers are the providers that tenants have for themselves; nil for none.
	Issuers Issuers
	// Log may be nil.
	Log *logrus.Entry
}

// Wrap gives every user their tenant and answers a request from what Early
// already found out.
func Wrap(inner authenticator.Request, o Options) authenticator.Request {
	if o.Log == nil {
		o.Log = logrus.WithField("component", "authn")
	}
	return &tenanted{inner: inner, opts: o, verified: newVerified(), logins: loginsOf(o.Issuers)}
}

type tenanted struct {
	inner    authenticator.Request
	opts     Options
	verified *verified
	logins   authenticator.Request // of tenants' providers, nil for none
}

// AuthenticateRequest implements authenticator.Request.
func (t *tenanted) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	if m := rememberedIn(req.Context()); m != nil && m.by == t && m.tls == req.TLS &&
		m.taken.CompareAndSwap(false, true) {
		return m.decided()
	}
	a := t.authenticate(req, inPath(req.Context()))
	if a.err == nil && a.life.err != nil {
		// Only the edge can say what is missing, and does.
		return nil, false, a.life.err
	}
	return a.decided()
}

// answer is what authentication finds out.
type answer struct {
	response *authenticator.Response
	ok       bool
	err      error
	// life is which of the tenants of their name the user belongs to. It is asked for every
	// request, also when the certificate is known: tenants come and go.
	life life
	// members are the tenants between which the user may choose, if these are several.
	members []string
}

// undecided reports whether the user has to choose, and did not.
func (a *answer) undecided() bool {
	return a.members != nil && space.TenantOf(a.response.User) == space.All
}

// decided is the answer for the chain, which knows nobody who has yet to choose.
func (a *answer) decided() (*authenticator.Response, bool, error) {
	if a.undecided() {
		return nil, false, errUndecided(a.members)
	}
	return a.response, a.ok, a.err
}

// authenticate finds it out; named is the tenant that the path of the request names.
func (t *tenanted) authenticate(req *http.Request, named string) answer {
	if response := t.verified.user(req); response != nil {
		of, err := t.life(req.Context(), space.TenantOf(response.User), peer(req))
		if err != nil {
			return answer{life: of, err: err}
		}
		return answer{response: response, ok: true, life: of}
	}
	if err := checkTokens(req.Header); err != nil {
		return answer{err: err}
	}
	// The authenticators take the token out of the request.
	token := ""
	if t.opts.TokenFile != nil {
		token = bearerToken(req.Header)
	}
	response, ok, err := t.inner.AuthenticateRequest(req)
	if err != nil || !ok || response == nil || response.User == nil {
		if t.logins != nil && !ok && t.opts.Issuers.Any() {
			return t.login(req, named, err)
		}
		return answer{response: response, ok: ok, err: err}
	}
	who, members, err := t.identify(req, token, named, response.User)
	if err != nil {
		t.opts.Log.WithError(err).WithField("user", response.User.GetName()).
			Error("Refusing a user whose tenant is not clear")
		return answer{err: &refused{&user.DefaultInfo{Name: cut(response.User.GetName())}, err}}
	}
	out := *response
	out.User = who
	a := answer{response: &out, ok: true, members: members}
	if a.undecided() {
		return a
	}
	if a.life, err = t.life(req.Context(), space.TenantOf(who), certificateOf(req, response.User)); err != nil {
		return answer{life: a.life, err: err}
	}
	out.User = ofNode(who, certificateOf(req, response.User))
	t.verified.remember(req, &out)
	return a
}

// remembered is the answer to a request that Early found out.
type remembered struct {
	answer
	by  *tenanted
	tls *tls.ConnectionState
	// taken is set once the chain has got the answer: whatever else asks
	// with the same context asks about other credentials.
	taken atomic.Bool
}

type rememberedKey struct{}

func rememberedIn(ctx context.Context) *remembered {
	m, _ := ctx.Value(rememberedKey{}).(*remembered)
	return m
}

// loopbackServerName is how the API server's own client calls the server in
// TLS (LoopbackClientServerNameOverride upstream).
const loopbackServerName = "apiserver-loopback-client"

// FromItself tells the requests of the API server's own client, which connects
// to it on this machine under a name for itself.
func FromItself(req *http.Request) bool {
	if req.TLS == nil || req.TLS.ServerName != loopbackServerName {
		return false
	}
	from, err := netip.ParseAddrPort(req.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback()
}

type fromPartitionKey struct{}

// FromPartition notes that another partition sent the request on, and has authenticated its user if it says one:
// what their groups make of them is in what it says.
func FromPartition(req *http.Request) *http.Request {
	return req.WithContext(context.WithValue(req.Context(), fromPartitionKey{}, true))
}

func fromPartition(ctx context.Context) bool { return ctx.Value(fromPartitionKey{}) != nil }

// Early authenticates a request before the chain does. named is the tenant that its path
// names, by which a member of several says as whose user they ask. The returned request
// carries the answer, also a negative one, and the chain's authentication gets
// it from there once, without work. Only an authenticator made by Wrap
// remembers.
//
// The API server's own requests are left to the chain: only it knows their
// token, and the authenticators here may send unknown ones to a webhook. Who
// merely pretends to be the API server, on its machine, skips the edge and then
// has no space, which authorization refuses to users of tenants.
func Early(
	a authenticator.Request, req *http.Request, named string,
) (*http.Request, *authenticator.Response, bool, error) {
	if a == nil || FromItself(req) {
		return req, nil, false, nil
	}
	t, ok := a.(*tenanted)
	if !ok {
		response, ok, err := a.AuthenticateRequest(req)
		return req, response, ok, err
	}
	m := &remembered{by: t, tls: req.TLS, answer: t.authenticate(req, named)}
	return withAnswer(req, m), m.response, m.ok, m.err
}

// Again lets the chain get the answer of Early another time, for a request
// that the edge sends through the chain more than once.
func Again(req *http.Request) *http.Request {
	m := rememberedIn(req.Context())
	if m == nil {
		return req
	}
	return withAnswer(req, &remembered{by: m.by, tls: m.tls, answer: m.answer})
}

// Authenticated is the user that Early found out for the request, whomever they
// impersonates since; nil when there is none.
func Authenticated(ctx context.Context) user.Info {
	if m := rememberedIn(ctx); m != nil && m.err == nil && m.ok && m.response != nil {
		return m.response.User
	}
	return nil
}

func withAnswer(req *http.Request, m *remembered) *http.Request {
	return req.WithContext(context.WithValue(req.Context(), rememberedKey{}, m))
}

// Confine answers only for users of tenant, as a TokenReview inside their space
// must. A member of several is one of its users there. Why another token is refused
// would tell about its owner, so no error is passed on.
func Confine(inner authenticator.Request, tenant string) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		response, ok, err := inner.AuthenticateRequest(req.WithContext(withPath(req.Context(), tenant)))
		if err != nil || !ok || response == nil || space.TenantOf(response.User) != tenant {
			return nil, false, errToken
		}
		return response, true, nil
	})
}
