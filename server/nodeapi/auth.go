package nodeapi

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"github.com/a4s-io/a4s/internal/jointoken"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/authn"
)

// identity is who sent a request.
type identity struct {
	// name is for people: a user name or "bootstrap token <id>".
	name string
	// admin is a member of system:masters.
	admin bool
	// node is the node whose certificate was shown, empty for tokens.
	node string
	// groups are those of that certificate, and life is the one of the node that it is of.
	groups []string
	life   string
	// partition is the partition whose certificate was shown, empty for others.
	partition string
	// serverToken says that the server token was shown.
	serverToken bool
}

func (i identity) String() string { return i.name }

func unauthorized(message string, cause error) *statusError {
	e := refusal(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, message)
	e.cause = cause
	return e
}

// errDenied hides why a credential is wrong: telling an unknown bootstrap
// token from an expired one helps only who guesses.
func errDenied(cause error) *statusError {
	return unauthorized("the token is not valid for this cluster: it is wrong, has expired or was replaced", cause)
}

// authenticator finds out who sends requests.
type authenticator struct {
	tokens   *jointoken.ServerTokens
	clientCA *pki.CA
	secrets  Secrets
	now      func() time.Time
}

// authenticate returns who sent r. A credential in the header is judged
// alone, even if there is a client certificate too.
func (a *authenticator) authenticate(r *http.Request) (identity, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return a.authenticateCert(r)
	}
	if user, password, ok := r.BasicAuth(); ok {
		if _, _, ok := jointoken.ParseBootstrap(user + "." + password); ok {
			return a.authenticateBootstrap(r.Context(), user, password)
		}
		if !a.tokens.Check(user, password) {
			return identity{}, errDenied(nil)
		}
		return identity{name: user + " token", serverToken: a.tokens.Check("server", password)}, nil
	}
	if scheme, value, _ := strings.Cut(header, " "); strings.EqualFold(scheme, "Bearer") {
		if id, secret, ok := jointoken.ParseBootstrap(value); ok {
			return a.authenticateBootstrap(r.Context(), id, secret)
		}
	}
	return identity{}, unauthorized("the Authorization header holds no join token", nil)
}

func (a *authenticator) authenticateCert(r *http.Request) (identity, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return identity{}, unauthorized("a join token or a client certificate is needed", nil)
	}
	cert, err := a.clientCA.VerifyClient(r.TLS.PeerCertificates)
	if err != nil {
		return identity{}, unauthorized("the client certificate is not valid for this cluster", err)
	}
	id := identity{name: cert.Subject.CommonName}
	// The groups of a tenant's certificate mean nothing outside their space.
	if who, err := authn.FromCertificate(cert); err != nil || !space.IsSystem(who.Tenant) {
		return identity{}, refusal(http.StatusForbidden, metav1.StatusReasonForbidden,
			id.name+" is neither a node nor an administrator")
	}
	if slices.Contains(cert.Subject.Organization, pki.GroupMasters) {
		id.admin = true
		return id, nil
	}
	partition, ok := strings.CutPrefix(cert.Subject.CommonName, pki.PartitionUserPrefix)
	if ok && partition != "" && slices.Contains(cert.Subject.Organization, pki.GroupPartitions) {
		id.partition = partition
		return id, nil
	}
	node, ok := strings.CutPrefix(cert.Subject.CommonName, pki.NodeUserPrefix)
	if ok && node != "" && slices.Contains(cert.Subject.Organization, pki.GroupNodes) {
		id.node, id.groups, id.life = node, cert.Subject.Organization, cert.Subject.SerialNumber
		return id, nil
	}
	return identity{},
		refusal(http.StatusForbidden, metav1.StatusReasonForbidden, id.name+" is neither a node nor an administrator")
}

// authenticateBootstrap checks a Kubernetes bootstrap token, with the rules
// of the API server's own authenticator.
func (a *authenticator) authenticateBootstrap(ctx context.Context, id, secret string) (identity, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	obj, err := a.secrets.Get(ctx, bootstrapapi.BootstrapTokenSecretPrefix+id)
	if apierrors.IsNotFound(err) {
		return identity{}, errDenied(errors.New("there is no bootstrap token " + id))
	}
	if err != nil {
		return identity{}, unavailable("check a bootstrap token", err)
	}
	if subtle.ConstantTimeCompare(obj.Data[bootstrapapi.BootstrapTokenSecretKey], []byte(secret)) != 1 {
		return identity{}, errDenied(errors.New("wrong secret for bootstrap token " + id))
	}
	if err := usableBootstrap(obj, id, a.now()); err != nil {
		return identity{}, errDenied(err)
	}
	return identity{name: "bootstrap token " + id}, nil
}

func usableBootstrap(obj *corev1.Secret, id string, now time.Time) error {
	switch {
	case obj.Type != bootstrapapi.SecretTypeBootstrapToken || string(obj.Data[bootstrapapi.BootstrapTokenIDKey]) != id:
		return errors.New("the secret of bootstrap token " + id + " has another type or token-id")
	case obj.DeletionTimestamp != nil:
		return errors.New("bootstrap token " + id + " is being deleted")
	case string(obj.Data[bootstrapapi.BootstrapTokenUsageAuthentication]) != "true":
		return errors.New("bootstrap token " + id + " is not for authentication")
	}
	text := string(obj.Data[bootstrapapi.BootstrapTokenExpirationKey])
	if text == "" {
		return nil
	}
	expires, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return errors.New("bootstrap token " + id + " has an unreadable expiration")
	}
	if !now.Before(expires) {
		return errors.New("bootstrap token " + id + " expired on " + text)
	}
	return nil
}
