package nodeidentity

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	capihelper "k8s.io/kubernetes/pkg/apis/certificates"
	"k8s.io/kubernetes/pkg/controller/certificates"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/server/nodeapi/nodelife"
)

// SignerName is the name of the component.
const SignerName = "node-certificate-signer"

const (
	// shortest is the shortest life of a certificate, as upstream has it.
	shortest = 10 * time.Minute
	workers  = 2
)

// SignerOptions configure the signer.
type SignerOptions struct {
	// Partition is that of this server.
	Partition string
	Client    kubernetes.Interface
	// CA signs, for as long as certificates live here.
	CA   *pki.CA
	Life time.Duration
	// Lives are the records of nodes.
	Lives interface {
		Of(node string) (nodelife.Record, bool, error)
		Change(ctx context.Context, node string, change func(*nodelife.Record, bool) error) (nodelife.Record, error)
	}
	Log *logrus.Entry
}

// Signer signs the approved requests of kubelets for client certificates, in place of
// upstream's signer, which would leave out the group of the partition and the life of the
// node: the subject of such a request is fixed, and without the group it is that of a node of
// the home partition.
func Signer(o SignerOptions) component.Component {
	return component.Component{Name: SignerName, Run: func(ctx context.Context, ready func()) error {
		f := informers.NewSharedInformerFactoryWithOptions(o.Client, 0,
			informers.WithTweakListOptions(func(l *metav1.ListOptions) {
				l.FieldSelector = fields.OneTermEqualSelector("spec.signerName",
					certificatesv1.KubeAPIServerClientKubeletSignerName).String()
			}))
		defer f.Shutdown()
		c := certificates.NewCertificateController(ctx, SignerName, o.Client,
			f.Certificates().V1().CertificateSigningRequests(), o.sign)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // before Shutdown, which waits for the informers
		f.StartWithContext(ctx)
		ready()
		c.Run(ctx, workers)
		return nil
	}}
}

// sign signs a request, or says in it why not.
func (o SignerOptions) sign(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName || len(csr.Status.Certificate) > 0 ||
		!certificates.IsCertificateRequestApproved(csr) ||
		certificates.HasTrueCondition(csr, certificatesv1.CertificateFailed) {
		return nil
	}
	node, key, err := parse(csr)
	of := ""
	if err == nil {
		of, err = o.of(ctx, csr, node)
		if err != nil && !errors.Is(err, nodelife.ErrDead) {
			return err
		}
	}
	if err != nil {
		csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "SignerValidationFailure",
			Message: err.Error(), LastUpdateTime: metav1.Now(),
		})
	} else {
		ca := o.CA.WithLife(o.life(csr))
		if csr.Status.Certificate, err = ca.SignNodeClient(key, node, o.Partition, of); err != nil {
			return fmt.Errorf("signing the certificate of node %s: %w", node, err)
		}
	}
	_, err = o.Client.CertificatesV1().CertificateSigningRequests().UpdateStatus(ctx, csr, metav1.UpdateOptions{})
	return err
}

// of is the life of a node in which a request gets a certificate. A node goes on with its own;
// for anybody else somebody approved the request by hand, which begins one if it has to.
func (o SignerOptions) of(
	ctx context.Context, csr *certificatesv1.CertificateSigningRequest, node string,
) (string, error) {
	if o.Lives == nil {
		return "", nil
	}
	record, there, err := o.Lives.Of(node)
	if err != nil || !there {
		return "", err
	}
	if csr.Spec.Username == pki.NodeUserPrefix+node {
		if !record.Good(strings.Join(csr.Spec.Extra[pki.NodeLife], ",")) {
			return "", nodelife.ErrDead
		}
		return record.Life, nil
	}
	record, err = o.Lives.Change(ctx, node, func(r *nodelife.Record, _ bool) error {
		r.Begin()
		return nil
	})
	return record.Life, err
}

func (o SignerOptions) life(csr *certificatesv1.CertificateSigningRequest) time.Duration {
	if csr.Spec.ExpirationSeconds == nil {
		return o.Life
	}
	return min(o.Life, max(shortest, time.Duration(*csr.Spec.ExpirationSeconds)*time.Second))
}

// parse reads a request by upstream's rules.
func parse(csr *certificatesv1.CertificateSigningRequest) (node string, key crypto.PublicKey, err error) {
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil {
		return "", nil, errors.New("the request is not in PEM")
	}
	req, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return "", nil, fmt.Errorf("reading the request: %w", err)
	}
	usages := sets.NewString()
	for _, u := range csr.Spec.Usages {
		usages.Insert(string(u))
	}
	if err := capihelper.ValidateKubeletClientCSR(req, usages); err != nil {
		return "", nil, err
	}
	if key, err = pki.CSRPublicKey(csr.Spec.Request); err != nil {
		return "", nil, err
	}
	node = req.Subject.CommonName[len(pki.NodeUserPrefix):]
	if node == "" {
		return "", nil, errors.New("the request names no node")
	}
	return node, key, nil
}
