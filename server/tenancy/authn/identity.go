package authn

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/space"
)

// ErrTenant is a user whose tenant is not clear: two differ, or the name is
// none of a tenant. To be matched with errors.Is.
var ErrTenant = errors.New("the tenant of the user is not clear")

var errToken = errors.New("invalid bearer token")

const (
	bootstrapUser  = "system:bootstrap:"
	bootstrapGroup = "system:bootstrappers"
)

// identify finds the tenant of an authenticated user and returns the user as
// they are known inside, and the tenants of which they are a member if these are several.
// named is the one that the path of the request names.
func (t *tenanted) identify(
	req *http.Request, token, named string, u user.Info,
) (_ user.Info, members []string, _ error) {
	if cert := certificateOf(req, u); cert != nil {
		id, err := FromCertificate(cert)
		if err != nil {
			return nil, nil, err
		}
		who, err := member(u, id.Tenant, id.Groups)
		return who, nil, err
	}
	claims, err := memberships(u.GetExtra()[space.Extra])
	if err != nil {
		return nil, nil, err
	}
	ofAccount, _ := space.SplitUser(u.GetName())
	column, static := t.tokenFile(req, token, u)
	said := claims
	if ofAccount == "" && !static && !ofCluster(u) && !fromPartition(req.Context()) {
		if claims, err = withGroups(claims, t.opts.Groups.Of(u.GetGroups())); err != nil {
			return nil, nil, err
		}
	}
	if len(claims) > 1 {
		if ofAccount != "" {
			return nil, nil, fmt.Errorf("%w: the extra attribute %s of a service account has %d values, "+
				"it must have one", ErrTenant, space.Extra, len(claims))
		}
		tenant, decided := Choose(claims, named)
		if len(said) == 1 && !slices.Contains(claims, named) {
			tenant, decided = said[0], true // groups take nobody away from the tenant that they have without them
		}
		who, err := member(u, tenant, u.GetGroups())
		if err == nil && !decided {
			who = undecided(who, claims)
		}
		return who, claims, err
	}
	if column != "" {
		claims = append(claims, column)
	}
	if ofAccount != "" && ofAccount != space.System {
		claims = append(claims, ofAccount)
	}
	tenant, err := agreed(claims)
	if err != nil {
		return nil, nil, err
	}
	if tenant == "" {
		tenant = t.opts.DefaultTenant
		if ofAccount == space.System || ofCluster(u) {
			tenant = space.System
		}
	}
	who, err := member(u, tenant, u.GetGroups())
	return who, nil, err
}

// agreed is the one tenant that all claims name, "" when there are none.
func agreed(claims []string) (string, error) {
	tenant := ""
	for i, c := range claims {
		if err := checkTenant(c); err != nil {
			return "", err
		}
		if i > 0 && c != tenant {
			return "", fmt.Errorf("%w: it is said to be %q and %q", ErrTenant, tenant, c)
		}
		tenant = c
	}
	return tenant, nil
}

// checkTenant accepts the name of a tenant and of the system.
func checkTenant(name string) error {
	if name == space.System {
		return nil
	}
	if len(name) > space.MaxTenant {
		// It may be as long as a token can be, and is answered and logged.
		return fmt.Errorf("%w: %w: one of %d characters, at most %d are possible", ErrTenant, space.ErrTooLong,
			len(name), space.MaxTenant)
	}
	if err := space.ValidateTenant(name); err != nil {
		return fmt.Errorf("%w: %w", ErrTenant, err)
	}
	return nil
}

// ofCluster tells users who belong to the cluster without saying so.
func ofCluster(u user.Info) bool {
	return u.GetName() == user.Anonymous ||
		(strings.HasPrefix(u.GetName(), bootstrapUser) && slices.Contains(u.GetGroups(), bootstrapGroup))
}

// certificateOf is the client certificate that u was authenticated by, nil if
// it was something else. Upstream's x509 authenticator puts the certificate's
// hash into the user.
func certificateOf(req *http.Request, u user.Info) *x509.Certificate {
	if req.TLS == nil || len(req.TLS.PeerCertificates) == 0 {
		return nil
	}
	cert := req.TLS.PeerCertificates[0]
	sum := sha256.Sum256(cert.Raw)
	if !slices.Contains(u.GetExtra()[user.CredentialIDKey], certificateID+hex.EncodeToString(sum[:])) {
		return nil
	}
	return cert
}

// certificateID begins the credential ID of a client certificate.
const certificateID = "X509SHA256="

// member is u as a user of tenant: names of service accounts and their groups
// are composite, and the extra attribute says the tenant. u is not changed.
func member(u user.Info, tenant string, groups []string) (user.Info, error) {
	_, extra := u.GetExtra()[space.Extra]
	if space.IsSystem(tenant) && !extra && slices.Equal(groups, u.GetGroups()) {
		return u, nil
	}
	out := &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: slices.Clone(groups),
		Extra: maps.Clone(u.GetExtra())}
	if space.IsSystem(tenant) {
		delete(out.Extra, space.Extra)
		return out, nil
	}
	var err error
	if out.Name, err = composeUser(tenant, out.Name); err != nil {
		return nil, err
	}
	out.Groups = slices.DeleteFunc(out.Groups, func(g string) bool { return g == "" })
	for i, g := range out.Groups {
		if out.Groups[i], err = composeGroup(tenant, g); err != nil {
			return nil, err
		}
	}
	if out.Extra == nil {
		out.Extra = map[string][]string{}
	}
	out.Extra[space.Extra] = []string{tenant}
	return out, nil
}

// composeUser is the inner name of a user of tenant, who may be given by their
// inner name already.
func composeUser(tenant, name string) (string, error) {
	switch of, _ := space.SplitUser(name); of {
	case "", tenant:
		return name, nil
	case space.System:
		return space.User(tenant, name), nil
	default:
		return "", fmt.Errorf("%w: %w: the user %q", ErrTenant, ErrForeign, name)
	}
}

// composeGroup is composeUser for groups.
func composeGroup(tenant, group string) (string, error) {
	switch of, _ := space.SplitGroup(group); of {
	case tenant:
		return group, nil
	case "", space.System:
		return space.Group(tenant, group), nil
	default:
		return "", fmt.Errorf("%w: %w: the group %q", ErrTenant, ErrForeign, group)
	}
}
