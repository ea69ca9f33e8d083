package authn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/space"
)

// Issuers are the providers of OpenID Connect that tenants have for themselves.
type Issuers interface {
	// Any reports whether any tenant has one.
	Any() bool
	// Login finds out whose a token is; nil if no tenant has its provider. named is the tenant that the path
	// of the request names.
	Login(ctx context.Context, token, named string) (*Login, error)
}

// Login is a user of a tenant's provider.
type Login struct {
	// User is what the provider says of them, which nobody believes beyond the tenant.
	User user.Info
	// Tenant is that of the provider, and UID tells it from others of its name.
	Tenant string
	UID    types.UID
	// Unclear is why it could be another tenant's user as well, nil if it could not.
	Unclear error
}

// ErrAway is a token whose provider does not say by which keys it is to be verified, to be matched with errors.Is.
var ErrAway = errors.New("the provider of the token does not answer")

// Bounds of what a tenant's provider says of a user.
const (
	maxName    = 256 // bytes of a name, and of a group
	mostGroups = 1024
)

// Reserved is what a name of a user or of a group begins with that a tenant's provider cannot give, "" for no
// such name: those of Kubernetes and of a4s, and what makes a tenant in a certificate.
func Reserved(name string) string {
	for _, prefix := range []string{"system:", "a4s:", space.Organization} {
		if strings.HasPrefix(name, prefix) {
			return prefix
		}
	}
	return ""
}

// loginsOf takes tokens from where upstream takes them, and out of the request.
func loginsOf(issuers Issuers) authenticator.Request {
	if issuers == nil {
		return nil
	}
	tokens := logins{issuers}
	return union.New(bearertoken.New(tokens), websocket.NewProtocolAuthenticator(tokens))
}

type logins struct{ issuers Issuers }

// AuthenticateToken implements authenticator.Token.
func (l logins) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	found, err := l.issuers.Login(ctx, token, inPath(ctx))
	if err != nil || found == nil {
		return nil, false, err
	}
	return &authenticator.Response{User: &loggedIn{found.User, found}}, true, nil
}

type loggedIn struct {
	user.Info
	login *Login
}

// login authenticates a token of a tenant's provider, which none of the cluster's authenticators knows; why is
// what these said.
func (t *tenanted) login(req *http.Request, named string, why error) answer {
	response, ok, err := t.logins.AuthenticateRequest(req.WithContext(withPath(req.Context(), named)))
	if err != nil || !ok {
		return answer{err: errors.Join(why, err)}
	}
	by, ok := response.User.(*loggedIn)
	if !ok {
		return answer{err: errToken}
	}
	found := by.login
	who, err := found.user()
	if err != nil {
		// For the audit log, in which a name of the system would be taken for the system's.
		return answer{err: &refused{&user.DefaultInfo{Name: cut(found.User.GetName()),
			Extra: map[string][]string{space.Extra: {found.Tenant}}}, err}}
	}
	of, err := t.life(req.Context(), found.Tenant, nil)
	if err != nil || of.err != nil {
		return answer{life: of, err: err}
	}
	if t.opts.Tenants != nil && of.uid != found.UID {
		return answer{life: of, err: fmt.Errorf("%w: its provider was that of a former tenant", errToken)}
	}
	return answer{response: &authenticator.Response{User: who}, ok: true, life: of}
}

// cut is the beginning of a name that may have any length.
func cut(name string) string {
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "")
	}
	return name
}

// user is them as they are known inside: a user of the tenant, with a name and groups, whatever else
// the provider says.
func (l *Login) user() (user.Info, error) {
	if l.Unclear != nil {
		return nil, l.Unclear
	}
	name, groups := l.User.GetName(), l.User.GetGroups()
	switch {
	case len(name) > maxName:
		return nil, fmt.Errorf("%w: the name of the user has %d bytes, at most %d are possible", ErrTenant, len(name),
			maxName)
	case name == "" || Reserved(name) != "":
		return nil, fmt.Errorf("%w: the name %q is none that a tenant's provider can give", ErrTenant, name)
	case len(groups) > mostGroups:
		return nil, fmt.Errorf("%w: the user has %d groups, at most %d are possible", ErrTenant, len(groups),
			mostGroups)
	}
	for _, g := range groups {
		if len(g) > maxName {
			return nil, fmt.Errorf("%w: the user has a group of %d bytes, at most %d are possible: it begins with %q",
				ErrTenant, len(g), maxName, cut(g))
		}
	}
	groups = slices.DeleteFunc(slices.Clone(groups), func(g string) bool { return g == "" || Reserved(g) != "" })
	plain := &user.DefaultInfo{Name: name, Groups: authenticated(groups)}
	if id := l.User.GetExtra()[user.CredentialIDKey]; len(id) > 0 {
		plain.Extra = map[string][]string{user.CredentialIDKey: id}
	}
	if l.Tenant == "" || space.IsSystem(l.Tenant) {
		return nil, fmt.Errorf("%w: the provider is that of no tenant", ErrTenant)
	}
	return member(plain, l.Tenant, plain.Groups)
}
