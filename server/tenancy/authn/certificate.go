package authn

import (
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/space"
)

// Identity is what a client certificate says about its holder, besides the
// name, which is always the common name.
type Identity struct {
	// Tenant is space.System for certificates that name none.
	Tenant string
	Groups []string
}

// FromCertificate reads a verified client certificate. Everything that accepts
// certificates of the cluster's client CA has to ask it: in the old form, a
// tenant's certificate may have any group as an organization.
func FromCertificate(cert *x509.Certificate) (Identity, error) {
	var tenants, others []string
	for _, o := range cert.Subject.Organization {
		if t, ok := strings.CutPrefix(o, space.Organization); ok {
			tenants = append(tenants, t)
		} else {
			others = append(others, o)
		}
	}
	if len(tenants) == 0 {
		return oldForm(cert)
	}
	if len(others) > 0 {
		return Identity{}, fmt.Errorf("%w: a certificate with the organization %s%s has its groups in "+
			"organizational units, not in the organizations %q", ErrTenant, space.Organization, tenants[0], others)
	}
	groups := slices.Clone(cert.Subject.OrganizationalUnit)
	for _, g := range groups {
		if strings.HasPrefix(g, space.Organization) {
			return Identity{}, fmt.Errorf("%w: %q cannot be a group", ErrTenant, g)
		}
	}
	if t, ok := strings.CutPrefix(cert.Subject.CommonName, space.Organization); ok {
		tenants = append(tenants, t)
	}
	tenant, err := agreed(tenants)
	if err != nil {
		return Identity{}, err
	}
	// The signers of the cluster refuse this group as an organization; a
	// second way to name it would be a way around them.
	if tenant == space.System && slices.Contains(groups, user.SystemPrivilegedGroup) {
		return Identity{},
			fmt.Errorf("%w: the group %s of the system must be an organization", ErrTenant, user.SystemPrivilegedGroup)
	}
	if tenant == space.System && cert.Subject.CommonName == space.Admin {
		groups = append(groups, space.Admins)
	}
	return Identity{Tenant: tenant, Groups: authenticated(groups)}, nil
}

// ofNode is a user with the life that the certificate of a node says, which whoever judges
// nodes asks for. Nobody says it otherwise but another server of the cluster.
func ofNode(u user.Info, cert *x509.Certificate) user.Info {
	if cert == nil || space.TenantOf(u) != space.System || !slices.Contains(u.GetGroups(), user.NodesGroup) {
		return u
	}
	out := &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(),
		Extra: maps.Clone(u.GetExtra())}
	delete(out.Extra, pki.NodeLife)
	if life := cert.Subject.SerialNumber; life != "" {
		if out.Extra == nil {
			out.Extra = map[string][]string{}
		}
		out.Extra[pki.NodeLife] = []string{life}
	}
	return out
}

// oldForm reads a certificate without a tenant's organization.
func oldForm(cert *x509.Certificate) (Identity, error) {
	tenant, err := tenantInName(cert.Subject.CommonName)
	if err != nil {
		return Identity{}, err
	}
	return Identity{Tenant: tenant, Groups: authenticated(cert.Subject.Organization)}, nil
}

// tenantInName is the tenant in the common name of an old certificate.
func tenantInName(name string) (string, error) {
	tenant, rest, ok := strings.Cut(name, ":")
	if !ok {
		return space.System, nil
	}
	if tenant+":" == space.Organization {
		tenant, _, _ = strings.Cut(rest, ":")
	} else if rest == "" {
		return "", fmt.Errorf("%w: the common name %q names no user", ErrTenant, name)
	}
	return tenant, checkTenant(tenant)
}

// OfTenantElsewhere reports whether u was read from a certificate of a tenant by
// something that knows nothing of tenants, such as a kubelet that asks the API
// server what u may do there.
func OfTenantElsewhere(u user.Info) bool {
	if _, ok := u.GetExtra()[space.Extra]; ok {
		return false
	}
	if slices.ContainsFunc(u.GetGroups(), func(g string) bool { return strings.HasPrefix(g, space.Organization) }) {
		return true
	}
	byCertificate := slices.ContainsFunc(u.GetExtra()[user.CredentialIDKey], func(id string) bool {
		return strings.HasPrefix(id, certificateID)
	})
	tenant, err := tenantInName(u.GetName())
	return byCertificate && (err != nil || tenant != space.System)
}

func authenticated(groups []string) []string {
	if slices.Contains(groups, user.AllAuthenticated) || slices.Contains(groups, user.AllUnauthenticated) {
		return groups
	}
	return append(slices.Clone(groups), user.AllAuthenticated)
}
