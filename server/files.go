package server

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/jointoken"
	"github.com/a4s-io/a4s/internal/kubeconfig"
	"github.com/a4s-io/a4s/internal/pki"
)

// files are what the components read: certificates, tokens, kubeconfigs and their
// like.
type files struct {
	cfg                                       *config.Server
	dir                                       string // <data-dir>/server
	url                                       string // of the API, for this machine
	pki                                       *pki.Files
	controllerKubeconfig, schedulerKubeconfig string
	manifests                                 string
	encryption, auditPolicy                   string
}

// defaultAuditPolicy records who did what, without bodies.
const defaultAuditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// serverCA is what nodes and pods verify the API with, in PEM.
func (f *files) serverCA() ([]byte, error) {
	bundle, err := os.ReadFile(f.pki.ServerCA.Cert)
	if err != nil {
		return nil, fmt.Errorf("reading the server CA: %w", err)
	}
	return bundle, nil
}

// loadTokens makes or reads the join tokens. Those of a cluster that this server
// joins are in the bundle.
func (f *files) loadTokens(bundle *joinapi.ServerBundle) (*jointoken.ServerTokens, error) {
	ca, err := f.serverCA()
	if err != nil {
		return nil, err
	}
	server, agent, err := sharedTokens(f.cfg, bundle)
	if err != nil {
		return nil, err
	}
	former, err := pki.Former(f.pki.FormerCAs)
	if err != nil {
		return nil, fmt.Errorf("reading the hashes of former CAs: %w", err)
	}
	return jointoken.EnsureServerTokens(f.dir, server, agent, ca, former...)
}

// tlsDir is where certificates and keys are in the directory of a server.
func tlsDir(serverDir string) string { return filepath.Join(serverDir, "tls") }

// newFiles says where the files are.
func newFiles(cfg *config.Server, dir, url string) *files {
	cred := filepath.Join(dir, "cred")
	f := &files{
		cfg: cfg, dir: dir, url: url, pki: pki.FilesIn(tlsDir(dir)),
		controllerKubeconfig: filepath.Join(cred, "controller.kubeconfig"),
		schedulerKubeconfig:  filepath.Join(cred, "scheduler.kubeconfig"),
		encryption:           filepath.Join(cred, "encryption.yaml"),
		manifests:            filepath.Join(dir, "manifests"),
	}
	if cfg.AuditLogPath != "" {
		f.auditPolicy = cfg.AuditPolicyFile
		if f.auditPolicy == "" {
			f.auditPolicy = filepath.Join(dir, "etc", "audit-policy.yaml")
		}
	}
	return f
}

// write writes kubeconfigs and the audit policy, and makes the directory
// of manifests: whoever sees the API can put a file there.
func (f *files) write() error {
	if err := os.MkdirAll(f.manifests, 0o700); err != nil {
		return fmt.Errorf("making the directory of manifests: %w", err)
	}
	for path, pair := range map[string]pki.Pair{f.controllerKubeconfig: f.pki.ControllerManager,
		f.schedulerKubeconfig: f.pki.Scheduler} {
		if err := kubeconfig.Write(kubeconfig.Options{Path: path, Server: f.url, CAFile: f.pki.ServerCA.Cert,
			CertFile: pair.Cert, KeyFile: pair.Key}); err != nil {
			return err
		}
	}
	if err := f.writeAdminKubeconfig(); err != nil {
		return err
	}
	if f.auditPolicy == "" || f.auditPolicy == f.cfg.AuditPolicyFile {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.auditPolicy), 0o700); err != nil {
		return fmt.Errorf("making the directory of the audit policy: %w", err)
	}
	if err := atomicfile.Write(f.auditPolicy, []byte(defaultAuditPolicy), 0o600); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	return nil
}

// writeAdminKubeconfig writes the administrator's kubeconfig, which holds its
// certificate and not the path of it.
func (f *files) writeAdminKubeconfig() error {
	mode, err := kubeconfig.ParseMode("--write-kubeconfig-mode", f.cfg.WriteKubeconfigMode)
	if err != nil {
		return err
	}
	return kubeconfig.Write(kubeconfig.Options{
		Path: f.cfg.WriteKubeconfig, Mode: mode, Group: f.cfg.WriteKubeconfigGroup,
		GroupSource: "--write-kubeconfig-group",
		Server:      f.url, CAFile: f.pki.ServerCA.Cert, CertFile: f.pki.Admin.Cert,
		KeyFile: f.pki.Admin.Key, Embed: true,
	})
}

// restConfig is a client of the local API with one of the PKI's identities.
func (f *files) restConfig(pair pki.Pair) *rest.Config {
	return &rest.Config{
		Host:            f.url,
		TLSClientConfig: rest.TLSClientConfig{CAFile: f.pki.ServerCA.Cert, CertFile: pair.Cert, KeyFile: pair.Key},
		QPS:             50,
		Burst:           100,
	}
}
