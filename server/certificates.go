package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/renewal"
)

// certificates renews the certificates of the control plane. The components
// read the files again; only the administrator's kubeconfig has a copy.
type certificates struct {
	plan *Plan
	mu   sync.Mutex // one renewal at a time
}

// life is how long the certificates are valid that this server signs.
func (p *Plan) life() time.Duration {
	if life := p.cfg.CertificateLife(); life > 0 {
		return life
	}
	return pki.LeafLife
}

func (p *Plan) pkiOptions(force bool) pki.Options {
	o := pki.Options{SANs: p.sans, Life: p.life(), Force: force}
	if p.peers.clustered {
		o.EtcdSANs = []string{p.nodeIP.String(), p.cfg.Agent.NodeName}
	}
	return o
}

// component renews certificates in time.
func (c *certificates) component() component.Component {
	o := renewal.Options{
		Name: "certificates",
		Renew: func(context.Context) error {
			_, err := c.renew(false)
			return err
		},
		Log: c.plan.log,
	}
	for _, use := range c.plan.pki.Uses() {
		if !use.CA {
			o.Files = append(o.Files, use.File)
		}
	}
	return renewal.New(o)
}

// renewAll renews every certificate.
func (c *certificates) renewAll(context.Context) ([]string, error) { return c.renew(true) }

func (c *certificates) renew(all bool) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	replaced, err := pki.Renew(c.plan.pki.Dir, c.plan.pkiOptions(all))
	if len(replaced) > 0 {
		c.plan.log.Infof("renewed %d certificates, which are valid for %s", len(replaced), c.plan.life())
	}
	if slices.Contains(replaced, c.plan.pki.Admin.Cert) {
		if kubeErr := c.plan.writeAdminKubeconfig(); err == nil {
			err = kubeErr
		}
	}
	return replaced, err
}
