package authn

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/a4s-io/a4s/internal/space"
)

// ErrForeign is an impersonation of a user of another tenant, to be matched
// with errors.Is.
var ErrForeign = errors.New("belongs to another tenant")

// ImpersonationError says what of an impersonation is refused.
type ImpersonationError struct {
	// Header and Value are what was asked for.
	Header, Value string
	// Err is the cause.
	Err error
}

// Error implements error. It repeats only what the client sent.
func (e *ImpersonationError) Error() string {
	return fmt.Sprintf("%s: %q cannot be impersonated here: %v", e.Header, e.Value, e.Err)
}

// Unwrap returns the cause.
func (e *ImpersonationError) Unwrap() error { return e.Err }

// RewriteImpersonation turns the impersonation headers of a request to the
// space of tenant into the inner form: names of service accounts and their
// groups become composite, and the extra attribute names the tenant. A request
// that names another tenant gets an *ImpersonationError.
func RewriteImpersonation(h http.Header, tenant string) error {
	name := h.Get(authenticationv1.ImpersonateUserHeader)
	if name == "" {
		// Nobody, or an error that upstream reports.
		return nil
	}
	if tenant == "" {
		tenant = space.System
	}
	for _, header := range tenantHeaders(h) {
		for _, v := range h[header] {
			if v != tenant {
				return &ImpersonationError{Header: header, Value: v, Err: ErrForeign}
			}
		}
	}
	if space.IsSystem(tenant) {
		if of := ImpersonatedTenant(h); of != "" {
			return &ImpersonationError{Header: authenticationv1.ImpersonateUserHeader, Value: name, Err: ErrForeign}
		}
	} else {
		composed, err := composeUser(tenant, name)
		if err != nil {
			return &ImpersonationError{Header: authenticationv1.ImpersonateUserHeader, Value: name, Err: ErrForeign}
		}
		h.Set(authenticationv1.ImpersonateUserHeader, composed)
		groups := h.Values(authenticationv1.ImpersonateGroupHeader)
		for i, g := range groups {
			if groups[i], err = composeGroup(tenant, g); err != nil {
				return &ImpersonationError{Header: authenticationv1.ImpersonateGroupHeader, Value: g, Err: ErrForeign}
			}
		}
	}
	for _, header := range tenantHeaders(h) {
		delete(h, header)
	}
	if !space.IsSystem(tenant) {
		h.Set(tenantHeader(), tenant)
	}
	return nil
}

// ImpersonatedTenant is the tenant of the user whom the headers ask to
// impersonate: what the extra attribute or the name of a service account says.
// It is "" for a user of the system or when nobody is impersonated, and
// space.All, which is the name of no tenant, when two are named.
func ImpersonatedTenant(h http.Header) string {
	name := h.Get(authenticationv1.ImpersonateUserHeader)
	if name == "" {
		return ""
	}
	tenant, _ := space.SplitUser(name)
	if tenant == space.System {
		tenant = "" // a native name, or one of the system
	}
	for _, header := range tenantHeaders(h) {
		for _, v := range h[header] {
			switch {
			case v == "" || v == tenant:
			case tenant != "":
				return space.All
			default:
				tenant = v
			}
		}
	}
	if tenant == space.System {
		return ""
	}
	return tenant
}

// tenantHeader is the header that names the tenant of an impersonated user.
func tenantHeader() string {
	return http.CanonicalHeaderKey(authenticationv1.ImpersonateUserExtraHeaderPrefix + url.PathEscape(space.Extra))
}

// tenantHeaders are the headers that upstream will read as the tenant of the
// impersonated user: a name can be escaped in several ways.
func tenantHeaders(h http.Header) []string {
	var found []string
	for header := range h {
		if len(header) < len(authenticationv1.ImpersonateUserExtraHeaderPrefix) ||
			!strings.EqualFold(header[:len(authenticationv1.ImpersonateUserExtraHeaderPrefix)],
				authenticationv1.ImpersonateUserExtraHeaderPrefix) {
			continue
		}
		key := header[len(authenticationv1.ImpersonateUserExtraHeaderPrefix):]
		if plain, err := url.PathUnescape(key); err == nil {
			key = plain
		}
		if strings.EqualFold(key, space.Extra) {
			found = append(found, header)
		}
	}
	return found
}
