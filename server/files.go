package server

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/jointoken"
	"github.com/a4s-io/a4s/internal/kubeconfig"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/server/cluster/election"
	"github.com/a4s-io/a4s/server/controlplane/apiserver"
	"github.com/a4s-io/a4s/server/controlplane/controllers"
	"github.com/a4s-io/a4s/server/controlplane/scheduler"
)

// files are the paths of what writeFiles writes for the components.
type files struct {
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

// subjectNames are the names and addresses in the certificate of the API.
func (p *Plan) subjectNames(nodeIP net.IP) ([]string, error) {
	_, services, err := net.ParseCIDR(p.cfg.ServiceCIDR)
	if err != nil {
		return nil, fmt.Errorf("--service-cidr: %w", err)
	}
	first := append(net.IP(nil), services.IP.To4()...)
	first[len(first)-1]++
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading the host name: %w", err)
	}
	sans := []string{
		"localhost", "127.0.0.1", host, nodeIP.String(), p.advertise.String(), first.String(),
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + p.cfg.ClusterDomain,
	}
	if p.cfg.Agent.NodeName != "" {
		sans = append(sans, p.cfg.Agent.NodeName)
	}
	if ip := net.ParseIP(p.cfg.BindAddress); ip != nil && !ip.IsUnspecified() {
		sans = append(sans, p.cfg.BindAddress)
	}
	sans = append(sans, p.cfg.Agent.NodeExternalIPs...)
	return append(sans, p.cfg.TLSSANs...), nil
}

// loadTokens makes or reads the join tokens.
func (p *Plan) loadTokens() error {
	ca, err := os.ReadFile(p.pki.ServerCA.Cert)
	if err != nil {
		return fmt.Errorf("reading the server CA: %w", err)
	}
	server, agent, err := p.sharedTokens()
	if err != nil {
		return err
	}
	former, err := pki.Former(p.pki.FormerCAs)
	if err != nil {
		return fmt.Errorf("reading the hashes of former CAs: %w", err)
	}
	p.tokens, err = jointoken.EnsureServerTokens(p.dir, server, agent, ca, former...)
	return err
}

// paths says where writeFiles puts its files.
func (p *Plan) paths() *files {
	cred := filepath.Join(p.dir, "cred")
	f := &files{
		controllerKubeconfig: filepath.Join(cred, "controller.kubeconfig"),
		schedulerKubeconfig:  filepath.Join(cred, "scheduler.kubeconfig"),
		encryption:           filepath.Join(cred, "encryption.yaml"),
		manifests:            filepath.Join(p.dir, "manifests"),
	}
	if p.cfg.AuditLogPath != "" {
		f.auditPolicy = p.cfg.AuditPolicyFile
		if f.auditPolicy == "" {
			f.auditPolicy = filepath.Join(p.dir, "etc", "audit-policy.yaml")
		}
	}
	return f
}

// writeFiles writes kubeconfigs and the audit policy, and makes the directory
// of manifests: whoever sees the API can put a file there.
func (p *Plan) writeFiles() error {
	f := p.files
	if err := os.MkdirAll(f.manifests, 0o700); err != nil {
		return fmt.Errorf("making the directory of manifests: %w", err)
	}
	for path, pair := range map[string]pki.Pair{f.controllerKubeconfig: p.pki.ControllerManager, f.schedulerKubeconfig: p.pki.Scheduler} {
		if err := kubeconfig.Write(kubeconfig.Options{Path: path, Server: p.url, CAFile: p.pki.ServerCA.Cert, CertFile: pair.Cert, KeyFile: pair.Key}); err != nil {
			return err
		}
	}
	if err := p.writeAdminKubeconfig(); err != nil {
		return err
	}
	if f.auditPolicy == "" || f.auditPolicy == p.cfg.AuditPolicyFile {
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
func (p *Plan) writeAdminKubeconfig() error {
	mode, err := kubeconfig.ParseMode("--write-kubeconfig-mode", p.cfg.WriteKubeconfigMode)
	if err != nil {
		return err
	}
	return kubeconfig.Write(kubeconfig.Options{
		Path: p.cfg.WriteKubeconfig, Mode: mode, Group: p.cfg.WriteKubeconfigGroup, GroupSource: "--write-kubeconfig-group",
		Server: p.url, CAFile: p.pki.ServerCA.Cert, CertFile: p.pki.Admin.Cert, KeyFile: p.pki.Admin.Key, Embed: true,
	})
}

func (p *Plan) apiserver(seams apiserver.Seams) apiserver.Options {
	t := p.pki
	return apiserver.Options{
		BindAddress:          p.cfg.BindAddress,
		Port:                 p.cfg.HTTPSListenPort,
		AdvertiseAddress:     p.advertise,
		ServiceCIDR:          p.cfg.ServiceCIDR,
		ServiceNodePortRange: p.cfg.ServiceNodePortRange,
		ClusterDomain:        p.cfg.ClusterDomain,
		Datastore:            p.store.Endpoint(),
		Seams:                seams,
		Args:                 p.cfg.KubeAPIServerArgs,
		Log:                  p.log,
		Files: apiserver.Files{
			ClientCA:    t.ClientCA.Cert,
			ServingCert: t.ServingAPIServer.Cert, ServingKey: t.ServingAPIServer.Key,
			KubeletCA:         t.ServerCA.Cert,
			KubeletClientCert: t.APIServerKubeletClient.Cert, KubeletKey: t.APIServerKubeletClient.Key,
			RequestHeaderCA: t.RequestHeaderCA.Cert,
			ProxyClientCert: t.AuthProxy.Cert, ProxyClientKey: t.AuthProxy.Key,
			ServiceAccountKey: t.ServiceAccountKey,
			EncryptionConfig:  p.files.encryption,
			AuditPolicy:       p.files.auditPolicy,
			AuditLog:          p.cfg.AuditLogPath,
			CertDir:           filepath.Join(p.dir, "tls", "upstream"),
		},
	}
}

func (p *Plan) controllers(leader *election.Election) controllers.Options {
	t := p.pki
	o := controllers.Options{
		Kubeconfig:        p.files.controllerKubeconfig,
		ClusterCIDR:       p.cfg.ClusterCIDR,
		ServiceCIDR:       p.cfg.ServiceCIDR,
		VolumePluginDir:   filepath.Join(p.dir, "volumeplugins"),
		ServiceAccountKey: t.ServiceAccountKey,
		RootCA:            t.ServerCA.Cert,
		ClientCACert:      t.ClientCASigner, ClientCAKey: t.ClientCA.Key,
		ServerCACert: t.ServerCASigner, ServerCAKey: t.ServerCA.Key,
		Args: p.cfg.KubeControllerManagerArgs,
		Pool: p.pool,
		Log:  p.log,
	}
	if leader != nil {
		o.Await = leader.Await
	}
	return o
}

func (p *Plan) scheduler(leader *election.Election) scheduler.Options {
	o := scheduler.Options{Kubeconfig: p.files.schedulerKubeconfig, Args: p.cfg.KubeSchedulerArgs, Pool: p.pool, Log: p.log}
	if leader != nil {
		o.Await = leader.Await
	}
	return o
}
