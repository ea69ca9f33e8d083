package server

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/dsn"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/cluster/encryption"
	"github.com/a4s-io/a4s/server/cluster/replicated"
	"github.com/a4s-io/a4s/server/controlplane/apiserver"
)

// secretsEncryption is the encryption of Secrets, with what of it is a setting.
type secretsEncryption struct {
	*encryption.Controller
	flag bool
}

// Status implements supervisor.Encryption.
func (e *secretsEncryption) Status(ctx context.Context) (joinapi.EncryptionStatus, error) {
	s, err := e.Controller.Status(ctx)
	s.Flag = e.flag
	return s, err
}

func newEncryption(
	cfg *config.Server, f *files, s *store, client kubernetes.Interface, onlyMembers func(what string) error,
) *secretsEncryption {
	return &secretsEncryption{flag: cfg.SecretsEncryption, Controller: encryption.New(encryption.Options{
		Path:   f.encryption,
		Store:  func() (encryption.Store, error) { return s.open() },
		Loaded: apiserver.EncryptionHash,
		Guard: func(ctx context.Context) error {
			return errors.Join(onlyMembers("encryption of Secrets"), mayChangeEncryption(ctx, cfg, f, s, client))
		},
		Cluster: encryptionCluster(f, s),
		Log:     logrus.WithField("component", encryption.Name),
	})}
}

// encryptionCluster is nil with a datastore that servers cannot share.
func encryptionCluster(f *files, s *store) *encryption.Cluster {
	store, ok := s.etcd()
	if !ok {
		return nil
	}
	return &encryption.Cluster{
		Cluster: replicatedCluster(f, s, store),
		Store:   func() (encryption.ClusterStore, error) { return s.open() },
	}
}

// replicatedCluster is what the servers of embedded etcd know of each other.
func replicatedCluster(f *files, s *store, e etcdStore) *replicated.Cluster {
	return &replicated.Cluster{
		Name: e.Name(), Several: s.peers.clustered,
		Members: func() []replicated.Member {
			var out []replicated.Member
			for _, m := range e.Members() {
				out = append(out, replicated.Member{ID: m.HexID(), Name: m.Name, URLs: m.ClientURLs})
			}
			return out
		},
		Secret: f.sharedSecret,
	}
}

// sharedSecret is the service-account key, which all servers have and which
// stays when CAs are replaced.
func (f *files) sharedSecret() ([]byte, error) {
	data, err := os.ReadFile(f.pki.ServiceAccountKey)
	if err != nil {
		return nil, fmt.Errorf("reading the service-account key: %w", err)
	}
	key, err := pki.ParseKey(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.pki.ServiceAccountKey, err)
	}
	return x509.MarshalPKCS8PrivateKey(key)
}

// mayChangeEncryption refuses where this server does not know how Secrets are
// stored, or who else has to.
func mayChangeEncryption(
	ctx context.Context, cfg *config.Server, f *files, store *store, client kubernetes.Interface,
) error {
	if name := apiserver.OwnStorage(cfg.KubeAPIServerArgs); name != "" {
		return &problem.Precondition{What: "encryption of Secrets",
			Err: fmt.Errorf("--kube-apiserver-arg %s is set, so a4s does not know how they are stored", name),
			Fix: "remove that argument, or change the encryption by hand"}
	}
	if store.endpoint.Kind == dsn.Embedded {
		return nil
	}
	slices, err := client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).List(ctx,
		metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=kubernetes"})
	if err != nil {
		return fmt.Errorf("looking for other servers: %w", err)
	}
	servers := map[string]bool{}
	for _, s := range slices.Items {
		for _, e := range s.Endpoints {
			for _, address := range e.Addresses {
				servers[address] = true
			}
		}
	}
	if len(servers) > 1 {
		return &problem.Precondition{What: "encryption of Secrets", Err: errors.New("several servers use the " +
			"datastore, and those that are not members of embedded etcd do not know of each other"),
			Fix: "stop all but one; the others need the file " + f.encryption + " before they start again"}
	}
	return nil
}
