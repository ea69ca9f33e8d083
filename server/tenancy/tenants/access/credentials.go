package access

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/authn"
)

// slack is how far the end of credentials may be from the end of their access: clocks are read
// twice, and certificates know no parts of seconds.
const slack = 10 * time.Second

// rest is how long new credentials are left alone, whatever is said of them meanwhile: who is asked
// for others may give the same again.
const rest = time.Minute

// credentials are what somebody shows to the API: a certificate with its key, or a token.
type credentials struct {
	certificate, key []byte
	token            string
	issued, notAfter time.Time
	// asked is what the access said of their life when they were made.
	asked string
}

// ended reports whether an access has ended.
func ended(a *tenantapi.TenantAccess, now time.Time) bool {
	return a.Spec.Expires != nil && !now.Before(a.Spec.Expires.Add(-slack/2))
}

// life is how long new credentials of an access are good.
func life(a *tenantapi.TenantAccess, now time.Time) time.Duration {
	d := time.Duration(a.Spec.Life()) * time.Second
	if e := a.Spec.Expires; e != nil {
		d = min(d, e.Sub(now)-slack/5)
	}
	return d
}

// asked is what an access says of the life of its credentials.
func asked(a *tenantapi.TenantAccess) string {
	if e := a.Spec.Expires; e != nil {
		return fmt.Sprintf("%d %s", a.Spec.Life(), e.UTC().Format(time.RFC3339))
	}
	return fmt.Sprint(a.Spec.Life())
}

// renewal is when credentials are renewed: when a third of their life is left, or not any more if
// they end with the access, whose end it is then. Their life is the one that was given: it can be
// shorter than asked for, and would be so again.
func (c *credentials) renewal(a *tenantapi.TenantAccess) time.Time {
	if e := a.Spec.Expires; e != nil && c.notAfter.After(e.Add(-slack)) {
		return e.Time
	}
	at := c.notAfter.Add(-c.notAfter.Sub(c.issued) / 3)
	if c.asked != asked(a) {
		at = c.issued
	}
	first := c.issued.Add(rest)
	if first.After(c.notAfter) {
		first = c.notAfter
	}
	if at.Before(first) {
		return first
	}
	return at
}

// inTime reports whether credentials do not last longer than the access says, and need not be
// renewed yet. It can have become shorter.
func (c *credentials) inTime(a *tenantapi.TenantAccess, now time.Time) bool {
	if e := a.Spec.Expires; e != nil && c.notAfter.After(e.Time) {
		return false
	}
	longest := now.Add(time.Duration(a.Spec.Life())*time.Second + slack)
	return now.Before(c.notAfter) && !c.notAfter.After(longest) && now.Before(c.renewal(a))
}

// shortened says that credentials are good for less than was asked for, "" if they are not.
func (c *credentials) shortened(a *tenantapi.TenantAccess) string {
	given, want := c.notAfter.Sub(c.issued), life(a, c.issued)
	if c.asked != asked(a) || given+slack >= want {
		return ""
	}
	return fmt.Sprintf("; they were shortened by who issued them: they are good for %s in place of %s",
		given.Round(time.Second), want.Round(time.Second))
}

// fresh are new credentials. What is not good is not written: it would be made again and again.
func (c *credentials) fresh(a *tenantapi.TenantAccess, now time.Time) (*credentials, error) {
	if c.asked = asked(a); !c.inTime(a, now) {
		return nil, fmt.Errorf("new credentials would be good until %s, which is over or later than asked for: look "+
			"at clocks, and at the end of the CA for clients", c.notAfter.UTC().Format(time.RFC3339))
	}
	return c, nil
}

// credentials are those that the Secret has, or new ones if they are not as they should be.
func (c *controller) credentials(
	ctx context.Context, a *tenantapi.TenantAccess, t *tenantapi.Tenant, in *inSpace, secret *corev1.Secret,
	now time.Time,
) (*credentials, error) {
	data, of := map[string][]byte{}, ""
	if secret != nil {
		data, of = secret.Data, secret.Annotations[askedAnnotation]
	}
	if a.Spec.ServiceAccount != nil {
		return in.token(ctx, a, string(data[corev1.ServiceAccountTokenKey]), of, now)
	}
	ca, err := c.o.ClientCA()
	if err != nil {
		return nil, err
	}
	if creds := certified(a, t.UID, data, of, ca, now); creds != nil {
		return creds, nil
	}
	return certify(a, t.UID, ca, now)
}

// subject is what the certificate of an access says.
func subject(a *tenantapi.TenantAccess, tenant types.UID) pki.Leaf {
	return pki.Leaf{CommonName: a.Spec.User, Organization: []string{space.Organization + a.Spec.Tenant},
		Units: a.Spec.Groups, SerialNumber: string(tenant), Client: true}
}

// certified are the credentials that a Secret has, nil if they are not what the access says of
// the tenant with this UID, or not for long any more.
func certified(
	a *tenantapi.TenantAccess, tenant types.UID, data map[string][]byte, asked string, ca *pki.CA, now time.Time,
) *credentials {
	creds := &credentials{certificate: data[corev1.TLSCertKey], key: data[corev1.TLSPrivateKeyKey], asked: asked}
	chain, err := pki.ParseCerts(creds.certificate)
	if err != nil || len(chain) == 0 {
		return nil
	}
	key, err := pki.ParseKey(creds.key)
	if err != nil {
		return nil
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil || !bytes.Equal(public, chain[0].RawSubjectPublicKeyInfo) {
		return nil
	}
	if _, err := ca.VerifyClient(chain); err != nil {
		return nil
	}
	want, is := subject(a, tenant), chain[0].Subject
	if is.CommonName != want.CommonName || !slices.Equal(is.Organization, want.Organization) ||
		!sameSet(is.OrganizationalUnit, want.Units) || is.SerialNumber != want.SerialNumber {
		return nil
	}
	creds.issued, creds.notAfter = times(chain[0])
	if !creds.inTime(a, now) {
		return nil
	}
	return creds
}

// times are when a certificate was signed, and its end. It begins before, for clocks that lag.
func times(cert *x509.Certificate) (issued, notAfter time.Time) {
	third := cert.NotAfter.Sub(pki.RenewAt(cert))
	return cert.NotAfter.Add(-3 * third), cert.NotAfter
}

// sameSet compares names without their order, which a certificate has of its own.
func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// certify makes a key, and signs a certificate of it.
func certify(a *tenantapi.TenantAccess, tenant types.UID, ca *pki.CA, now time.Time) (*credentials, error) {
	key, keyPEM, err := pki.NewKey()
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	certificate, err := ca.WithLife(life(a, now)).Sign(key.Public(), subject(a, tenant))
	if err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	chain, err := pki.ParseCerts(certificate)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	creds := &credentials{certificate: certificate, key: keyPEM}
	creds.issued, creds.notAfter = times(chain[0])
	return creds.fresh(a, now)
}

// token is the one that a Secret has, or a new one if that is not one of the service account that
// is there, the API refuses it, or it is not good for long any more.
func (s *inSpace) token(
	ctx context.Context, a *tenantapi.TenantAccess, has, asked string, now time.Time,
) (*credentials, error) {
	accounts := s.CoreV1().ServiceAccounts(a.Spec.ServiceAccount.Namespace)
	account, err := accounts.Get(ctx, a.Spec.ServiceAccount.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("looking for %s in the space %s: %w", who(a), a.Spec.Tenant, err)
	}
	if uid, creds, err := readToken(has); err == nil && uid == account.UID {
		creds.asked = asked
		if creds.inTime(a, now) {
			good, err := s.accepts(ctx, has, account.UID)
			switch {
			case err != nil:
				return nil, err
			case good:
				return creds, nil
			case now.Sub(creds.issued).Abs() < rest:
				return nil, errors.New("the API refuses the token that it has just given: another one " +
					"is asked for in a minute")
			}
		}
	}
	seconds := int64(life(a, now) / time.Second)
	if seconds < tenantapi.MinAccessSeconds {
		return nil, fmt.Errorf("tokens are good for %d seconds at least, and the access ends before",
			tenantapi.MinAccessSeconds)
	}
	answer, err := accounts.CreateToken(ctx, account.Name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for a token: %w", err)
	}
	uid, creds, err := readToken(answer.Status.Token)
	if err != nil {
		return nil, err
	}
	if uid != account.UID {
		return nil, errors.New("the service account has just been made again")
	}
	return creds.fresh(a, now)
}

// accepts reports whether the API takes a token for one of the service account with this UID. What
// a token says of itself does not tell that its key is one of today.
func (s *inSpace) accepts(ctx context.Context, token string, account types.UID) (bool, error) {
	review, err := s.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking whether the token is good: %w", err)
	}
	return review.Status.Authenticated && review.Status.User.UID == string(account), nil
}

// readToken reads whose a token is, since when and until when. It verifies nothing.
func readToken(token string) (account types.UID, creds *credentials, err error) {
	var claims struct {
		Exp        int64 `json:"exp"`
		Iat        int64 `json:"iat"`
		Kubernetes struct {
			ServiceAccount struct {
				UID types.UID `json:"uid"`
			} `json:"serviceaccount"`
		} `json:"kubernetes.io"`
	}
	if !authn.Unverified(token, &claims) {
		return "", nil, errors.New("it is no token of a service account")
	}
	return claims.Kubernetes.ServiceAccount.UID, &credentials{token: token, issued: time.Unix(claims.Iat, 0),
		notAfter: time.Unix(claims.Exp, 0)}, nil
}
