package nodeapi

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
)

const (
	// SecretTypeNodePassword is the type of the Secrets that bind a node
	// name to the password of a machine.
	SecretTypeNodePassword corev1.SecretType = "a4s.io/node-password"

	secretSuffix = ".node-password.a4s"
	keySalt      = "salt"
	keyHash      = "hash"
	saltLen      = 16
)

// Secrets is how a supervisor uses the Secrets of kube-system. Errors are
// those of the API.
type Secrets interface {
	Get(ctx context.Context, name string) (*corev1.Secret, error)
	Create(ctx context.Context, s *corev1.Secret) error
	// Delete deletes the Secret unless it is another one than s by now.
	Delete(ctx context.Context, s *corev1.Secret) error
	// ListType returns the Secrets of one type.
	ListType(ctx context.Context, t corev1.SecretType) ([]corev1.Secret, error)
}

// NewSecrets returns the Secrets that are reached with a client.
func NewSecrets(client corev1client.SecretsGetter) Secrets {
	return apiSecrets{client.Secrets(metav1.NamespaceSystem)}
}

type apiSecrets struct{ client corev1client.SecretInterface }

func (a apiSecrets) Get(ctx context.Context, name string) (*corev1.Secret, error) {
	return a.client.Get(ctx, name, metav1.GetOptions{})
}

func (a apiSecrets) Create(ctx context.Context, s *corev1.Secret) error {
	_, err := a.client.Create(ctx, s, metav1.CreateOptions{})
	return err
}

func (a apiSecrets) Delete(ctx context.Context, s *corev1.Secret) error {
	return a.client.Delete(ctx, s.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.UID}})
}

func (a apiSecrets) ListType(ctx context.Context, t corev1.SecretType) ([]corev1.Secret, error) {
	list, err := a.client.List(ctx, metav1.ListOptions{FieldSelector: "type=" + string(t)})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// bind makes password the one of the node, if it has none yet, and otherwise
// checks it, and reports whether it had one. The uniqueness of object names decides between two
// machines that come first at the same time. replace gives the node another password.
func (n *nodes) bind(ctx context.Context, node, password string, replace bool) (before bool, err error) {
	name := node + secretSuffix
	obj, err := n.secrets.Get(ctx, name)
	if apierrors.IsNotFound(err) {
		err = n.secrets.Create(ctx, newCredential(name, password))
		if err == nil {
			n.log.WithField("node", node).Info("a new node joined; its name now belongs to its password")
			return false, nil
		}
		if apierrors.IsAlreadyExists(err) {
			obj, err = n.secrets.Get(ctx, name)
		}
	}
	if err != nil {
		return false, unavailable("check the password of a node", err)
	}
	if obj.Type != SecretTypeNodePassword ||
		!hmac.Equal(obj.Data[keyHash], credentialHash(obj.Data[keySalt], password)) {
		if replace {
			if err := n.secrets.Delete(ctx, obj); err != nil && !apierrors.IsNotFound(err) {
				return false, unavailable("replace the password of a node", err)
			}
			return n.bind(ctx, node, password, false)
		}
		return false, refusal(http.StatusForbidden, joinapi.ReasonNodeNameTaken, fmt.Sprintf(
			"another machine holds the node name %q; choose another with --node-name or --with-node-id, or, "+
				"if this machine replaces that one, delete the Node first: kubectl delete node %s", node, node))
	}
	return true, nil
}

func newCredential(name, password string) *corev1.Secret {
	salt := make([]byte, saltLen)
	_, _ = rand.Read(salt) // never fails: crypto/rand ends the process instead
	immutable := true
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceSystem},
		Type:       SecretTypeNodePassword,
		Immutable:  &immutable,
		Data:       map[string][]byte{keySalt: salt, keyHash: credentialHash(salt, password)},
	}
}

// credentialHash needs no slow hash: the password is random, not chosen.
func credentialHash(salt []byte, password string) []byte {
	mac := hmac.New(sha256.New, salt)
	mac.Write([]byte(password))
	return mac.Sum(nil)
}

// nodeOf returns the node that a credential belongs to.
func nodeOf(obj *corev1.Secret) (node string, ok bool) {
	if obj.Type != SecretTypeNodePassword {
		return "", false
	}
	return strings.CutSuffix(obj.Name, secretSuffix)
}
