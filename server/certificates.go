package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/renewal"
	"github.com/a4s-io/a4s/server/partition"
)

// certificates renews the certificates of the control plane. The components
// read the files again; only the administrator's kubeconfig has a copy.
type certificates struct {
	cfg       *config.Server
	files     *files
	addresses *addresses
	clustered bool // several servers share embedded etcd
	partition *partition.Own
	log       *logrus.Entry
	mu        sync.Mutex // one renewal at a time
}

// life is how long the certificates are valid that this server signs.
func (c *certificates) life() time.Duration {
	if life := c.cfg.CertificateLife(); life > 0 {
		return life
	}
	return pki.LeafLife
}

func (c *certificates) options(force bool) pki.Options {
	o := pki.Options{SANs: c.addresses.sans, Life: c.life(), Force: force, Partition: c.partition.Name()}
	if c.clustered {
		o.EtcdSANs = []string{c.addresses.node.String(), c.cfg.Agent.NodeName}
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
		Log: c.log,
	}
	for _, use := range c.files.pki.Uses() {
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
	replaced, err := pki.Renew(c.files.pki.Dir, c.options(all))
	if len(replaced) > 0 {
		c.log.Infof("renewed %d certificates, which are valid for %s", len(replaced), c.life())
	}
	if slices.Contains(replaced, c.files.pki.Admin.Cert) {
		if kubeErr := c.files.writeAdminKubeconfig(); err == nil {
			err = kubeErr
		}
	}
	return replaced, err
}
