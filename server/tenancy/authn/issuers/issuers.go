package issuers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/authn"
)

// mostMade is of how many providers the keys are kept.
const mostMade = 1024

// ErrSeveral is a token whose provider and audience are those of several tenants, of which none was said.
var ErrSeveral = errors.New("the provider and the audience of the token are those of several tenants, and the URL " +
	"names none of them: write /tenants/NAME behind the address of the server")

// Dial connects to what a tenant names.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Options configures New.
type Options struct {
	// Dial makes the dialer of a tenant.
	Dial func(tenant string) Dial
	// Reserved reports whether a provider is one of the cluster's; nil for none.
	Reserved func(url string) bool
	// Log is told of providers that do not answer.
	Log *logrus.Entry
	// Clock is the time, nil for that of the machine.
	Clock clock.PassiveClock
}

// Issuers are those of all tenants.
type Issuers struct {
	opts Options

	mu sync.RWMutex
	// byURL are those that have an issuer, by their tenants; byTenant are all.
	byURL    map[string][]*provider
	byTenant map[string]*provider
	// made are the authenticators of those whose tokens were shown, by the *provider.
	made *lru.Cache
}

// provider is that of a tenant.
type provider struct {
	tenant string
	uid    types.UID
	of     *tenantapi.TenantAuthentication
}

// New makes them, without any: Changed and Gone say which there are.
func New(o Options) *Issuers {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Reserved == nil {
		o.Reserved = func(string) bool { return false }
	}
	return &Issuers{opts: o, byURL: map[string][]*provider{}, byTenant: map[string]*provider{},
		made: lru.New(mostMade)}
}

// Reserved reports whether a provider is one of the cluster's, and so can be none of a tenant's.
func (i *Issuers) Reserved(url string) bool { return i.opts.Reserved(url) }

// Changed is told of every tenant that is new or has changed.
func (i *Issuers) Changed(t *tenantapi.Tenant) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if p := i.byTenant[t.Name]; p != nil && p.uid == t.UID &&
		equality.Semantic.DeepEqual(p.of, t.Spec.Authentication) {
		return
	}
	i.remove(t.Name)
	if t.Spec.Authentication == nil {
		return
	}
	p := &provider{tenant: t.Name, uid: t.UID, of: t.Spec.Authentication}
	i.byTenant[p.tenant] = p
	having := i.byURL[p.of.Issuer.URL]
	at, _ := slices.BinarySearchFunc(having, p.tenant, func(o *provider, name string) int {
		return strings.Compare(o.tenant, name)
	})
	// A copy: who authenticates reads the other one.
	i.byURL[p.of.Issuer.URL] = slices.Insert(slices.Clone(having), at, p)
}

// Gone is told of every tenant that is gone.
func (i *Issuers) Gone(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.remove(name)
}

func (i *Issuers) remove(name string) {
	p := i.byTenant[name]
	if p == nil {
		return
	}
	delete(i.byTenant, name)
	i.made.Remove(p)
	url := p.of.Issuer.URL
	rest := slices.DeleteFunc(slices.Clone(i.byURL[url]), func(o *provider) bool { return o == p })
	if len(rest) == 0 {
		delete(i.byURL, url)
		return
	}
	i.byURL[url] = rest
}

// having are the providers of an issuer.
func (i *Issuers) having(url string) []*provider {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.byURL[url]
}

// Any reports whether any tenant has one.
func (i *Issuers) Any() bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return len(i.byTenant) > 0
}

// Login implements authn.Issuers.
func (i *Issuers) Login(ctx context.Context, token, named string) (*authn.Login, error) {
	if !i.Any() {
		return nil, nil
	}
	says, ok := untrusted(token)
	if !ok {
		return nil, nil
	}
	having := i.having(says.Issuer)
	if len(having) == 0 || i.opts.Reserved(says.Issuer) {
		return nil, nil
	}
	p, decided := choose(having, says.Audience, named)
	if p == nil {
		return nil, fmt.Errorf("no tenant has the audience of the token at %s", says.Issuer)
	}
	tokens, err := i.authenticator(p)
	if err != nil {
		return nil, err
	}
	var away error
	response, ok, err := tokens.AuthenticateToken(context.WithValue(ctx, failureKey{}, &away), token)
	if away != nil {
		return nil, fmt.Errorf("%w: %w", authn.ErrAway, away)
	}
	if err != nil || !ok {
		return nil, err
	}
	login := &authn.Login{User: response.User, Tenant: p.tenant, UID: p.uid}
	if !decided {
		login.Unclear = ErrSeveral
	}
	return login, nil
}

// choose is the provider that a token is of: that of the tenant which the path names, and else the one that
// has an audience of the token. Who asks for a space whose tenant has another provider is a user of the first
// that has the audience, who gets there what its other users get. decided is false if the path has to say it and
// did not.
func choose(having []*provider, audiences []string, named string) (p *provider, decided bool) {
	n := 0
	for _, one := range having {
		if one.tenant == named {
			return one, true
		}
		if slices.ContainsFunc(audiences, func(a string) bool { return slices.Contains(one.of.Issuer.Audiences, a) }) {
			if n++; p == nil {
				p = one
			}
		}
	}
	return p, n <= 1 || named != ""
}

// authenticator is that of a provider.
func (i *Issuers) authenticator(p *provider) (authenticator.Token, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if found, ok := i.made.Get(p); ok {
		return found.(authenticator.Token), nil //nolint:errcheck // nothing else is in it
	}
	config := convert(p.of)
	// With keys it begins no work of its own. Its client would be for claims that a token says are elsewhere.
	made, err := oidc.New(context.Background(), oidc.Options{
		JWTAuthenticator: config, Compiler: noExpressions{}, SupportedSigningAlgs: oidc.AllValidSigningAlgorithms(),
		KeySet: i.keysOf(p), Client: &http.Client{Transport: nothingElsewhere{}},
	})
	if err != nil {
		return nil, fmt.Errorf("the provider of tenant %s: %w", p.tenant, err)
	}
	if i.byTenant[p.tenant] == p {
		i.made.Add(p, made)
	}
	return made, nil
}

func (i *Issuers) keysOf(p *provider) *keys {
	f := &fetcher{issuer: p.of.Issuer.URL, ca: p.of.Issuer.CertificateAuthority, dial: i.opts.Dial(p.tenant)}
	var told time.Time // by one fetch at a time
	return &keys{clock: i.opts.Clock, fetch: f.fetch, tell: func(err error) {
		if now := i.opts.Clock.Now(); now.Sub(told) >= tellEvery {
			told = now
			i.opts.Log.WithError(err).WithFields(logrus.Fields{"tenant": p.tenant, "issuer": p.of.Issuer.URL}).
				Warn("The provider of a tenant does not say its keys")
		}
	}}
}

// tellEvery is how often the log says of a provider that it does not answer.
const tellEvery = time.Minute

// nothingElsewhere refuses distributed claims: their address is what the provider of a tenant says, and
// upstream keeps what it asked for each of them.
type nothingElsewhere struct{}

var errElsewhere = errors.New("claims that are kept elsewhere are not fetched")

// RoundTrip implements http.RoundTripper.
func (nothingElsewhere) RoundTrip(*http.Request) (*http.Response, error) { return nil, errElsewhere }
