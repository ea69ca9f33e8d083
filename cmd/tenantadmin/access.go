package tenantadmin

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/clientcmd/api/latest"
	"k8s.io/client-go/util/keyutil"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/kubeconfig"
	"github.com/a4s-io/a4s/internal/space"
)

const (
	// AdminUser administers every space: its tenant's controller binds them.
	AdminUser = "admin"
	// AdminRole is the ClusterRole with all rights in a space.
	AdminRole = "cluster-admin"
	// MinExpires is the shortest life of a certificate that the API gives.
	MinExpires = 10 * time.Minute

	// cleanupTimeout bounds what is done after the caller gave up.
	cleanupTimeout = 10 * time.Second
)

// ErrNoRole is a role that does not exist in the space.
var ErrNoRole = errors.New("no such ClusterRole in the space")

// Identity is somebody in a space.
type Identity struct {
	Tenant, User string
	Groups       []string
}

// Credentials are a client certificate and its key, in PEM.
type Credentials struct {
	Certificate, Key []byte
	NotAfter         time.Time
}

// Bind gives a user a ClusterRole in the whole space. Doing so again changes
// nothing.
func (a *Admin) Bind(ctx context.Context, tenant, user, role string) error {
	inside, err := a.space(tenant)
	if err != nil {
		return err
	}
	_, err = inside.RbacV1().ClusterRoles().Get(ctx, role, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ErrNoRole
	}
	if err != nil {
		return err
	}
	_, err = inside.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: bindingName(role, user)},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// bindingName is the same for the same role and user. Users are called what
// their identity provider likes, objects are not.
func bindingName(role, user string) string {
	const most = 63
	safe := len(user) <= most &&
		strings.Trim(user, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@:") == ""
	if !safe {
		sum := sha256.Sum256([]byte(user))
		user = "sha256-" + hex.EncodeToString(sum[:16])
	}
	return "a4s:" + role + ":" + user
}

// Issue makes a key and lets the cluster sign a certificate for it. The
// certificate is of the tenant that is there now: one that is made later under
// the same name does not accept it.
func (a *Admin) Issue(ctx context.Context, id Identity, expires time.Duration) (_ *Credentials, err error) {
	tenant, err := a.Get(ctx, id.Tenant)
	if err == nil && terminating(tenant) {
		err = ErrTerminating
	}
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{
		CommonName: id.User, Organization: []string{space.Organization + id.Tenant}, OrganizationalUnit: id.Groups,
		SerialNumber: string(tenant.UID),
	}}, key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate signing request: %w", err)
	}
	seconds := int32(expires / time.Second)
	requests := a.kube.CertificatesV1().CertificateSigningRequests()
	csr, err := requests.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "a4s-" + id.Tenant + "-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:           pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName:        certificatesv1.KubeAPIServerClientSignerName,
			ExpirationSeconds: &seconds,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature,
				certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for a certificate: %w", err)
	}
	defer func() {
		// Also when the caller gave up: nobody else will.
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		if e := requests.Delete(cleanup, csr.Name, metav1.DeleteOptions{}); e != nil && !apierrors.IsNotFound(e) {
			err = errors.Join(err, fmt.Errorf("deleting the certificate signing request %s: %w", csr.Name, e))
		}
	}()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AskedByAdministrator",
		Message: "a4s asked for it with the rights of an administrator of the cluster",
	})
	if _, err = requests.UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{}); err != nil {
		return nil, fmt.Errorf("approving the certificate signing request %s: %w", csr.Name, err)
	}
	creds := &Credentials{Key: keyPEM}
	err = until(ctx, "the certificate is not signed", nil, func(ctx context.Context) (string, error) {
		got, err := requests.Get(ctx, csr.Name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		for _, c := range got.Status.Conditions {
			if c.Type == certificatesv1.CertificateFailed || c.Type == certificatesv1.CertificateDenied {
				return "", fmt.Errorf("certificate signing request %s: %s: %s: %s", csr.Name, c.Type,
					c.Reason, c.Message)
			}
		}
		if creds.Certificate = got.Status.Certificate; len(creds.Certificate) == 0 {
			return "the controller manager to sign the request " + csr.Name, nil
		}
		return "", nil
	})
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(creds.Certificate)
	if block == nil {
		return nil, errors.New("the signed certificate is not PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the signed certificate: %w", err)
	}
	creds.NotAfter = cert.NotAfter
	return creds, nil
}

// WriteKubeconfig writes a file of Kubeconfig, which only its owner can read.
func WriteKubeconfig(path string, data []byte) error {
	return atomicfile.Write(path, data, kubeconfig.DefaultMode)
}

// Kubeconfig is a kubeconfig for the space of id. An empty server means the
// one that the Admin talks to.
func (a *Admin) Kubeconfig(id Identity, creds *Credentials, server string) ([]byte, error) {
	auth := api.NewAuthInfo()
	auth.ClientCertificateData, auth.ClientKeyData = creds.Certificate, creds.Key
	return kubeconfigOf(a, id.Tenant, id.User, auth, server)
}

// kubeconfigOf is one for the space of a tenant, for a user with these credentials.
func kubeconfigOf(a *Admin, tenant, user string, auth *api.AuthInfo, server string) ([]byte, error) {
	if server == "" {
		server = a.server
	}
	cluster := api.NewCluster()
	cluster.Server = Address(server, tenant)
	cluster.CertificateAuthorityData = a.cfg.CAData
	cluster.InsecureSkipTLSVerify = a.cfg.Insecure
	cluster.TLSServerName = a.cfg.ServerName
	name := user + "@" + tenant
	context := api.NewContext()
	context.Cluster, context.AuthInfo, context.Namespace = tenant, name, metav1.NamespaceDefault

	cfg := api.NewConfig()
	cfg.Clusters[tenant] = cluster
	cfg.AuthInfos[name] = auth
	cfg.Contexts[name] = context
	cfg.CurrentContext = name
	data, err := runtime.Encode(latest.Codec, cfg)
	if err != nil {
		return nil, fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	return data, nil
}
