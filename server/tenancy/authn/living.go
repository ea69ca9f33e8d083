package authn

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// Tenants tells which tenants there are now.
type Tenants interface {
	// Get finds a tenant, nil when there is none.
	Get(ctx context.Context, name string) (*tenantapi.Tenant, error)
}

// ErrAbsent is a user of a tenant that is not there, to be matched with errors.Is.
var ErrAbsent = errors.New("there is no tenant of this name")

// errFormer is a certificate of a tenant that is gone, although there is one
// of the same name.
var errFormer = errors.New("the certificate was issued for a former tenant of this name")

// backdated is how long before its issue a certificate of the cluster's signer
// begins to be valid.
const backdated = 5 * time.Minute

// life is which of the tenants of its name a user belongs to.
type life struct {
	uid types.UID
	// err is why that is not known, ErrAbsent when there is none of this name.
	err error
}

// life finds it out, and refuses the certificate of another one. cert is nil
// for users who came with something else.
func (t *tenanted) life(ctx context.Context, tenant string, cert *x509.Certificate) (life, error) {
	if t.opts.Tenants == nil || space.IsSystem(tenant) {
		return life{}, nil
	}
	found, err := t.opts.Tenants.Get(ctx, tenant)
	switch {
	case err != nil:
		return life{err: fmt.Errorf("looking for the tenant: %w", err)}, nil
	case found == nil:
		return life{err: ErrAbsent}, nil
	case cert != nil && !issuedFor(cert, found):
		return life{}, fmt.Errorf("%w: %s", errFormer, tenant)
	}
	return life{uid: found.UID}, nil
}

// issuedFor reports whether a certificate is of this tenant and not of a former
// one of its name. Certificates that do not say so must be younger than it.
func issuedFor(cert *x509.Certificate, t *tenantapi.Tenant) bool {
	if uid := cert.Subject.SerialNumber; uid != "" {
		return uid == string(t.UID)
	}
	return !cert.NotBefore.Add(backdated).Before(t.CreationTimestamp.Time)
}

// Life says which of the tenants of their name the user belongs to whom Early
// found out: its UID, "" for users of the system. It is ErrAbsent when there was
// no such tenant then, whatever has been made since.
func Life(ctx context.Context) (types.UID, error) {
	if m := rememberedIn(ctx); m != nil {
		return m.life.uid, m.life.err
	}
	return "", nil
}
