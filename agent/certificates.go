package agent

import (
	"context"
	"path/filepath"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/renewal"
)

// startCertificates keeps the certificates of the node from expiring. The
// kubelet and the clients read the files again.
func startCertificates(ctx context.Context, group *component.Group, dir string, options join.Options) {
	log := logrus.WithField("component", "agent")
	files := pki.NodeFilesIn(filepath.Join(dir, "tls"))
	group.Start(ctx, renewal.New(renewal.Options{
		Name:  "node-certificates",
		Files: []string{files.Client.Cert, files.Serving.Cert},
		Renew: func(ctx context.Context) error {
			err := join.Renew(ctx, options)
			if err == nil {
				log.Info("renewed the certificates of this node")
			}
			return err
		},
		Log: log,
	}))
}

// RenewCertificates renews the certificates of the node that keeps its data in
// dataDir, whether it runs or not.
func RenewCertificates(ctx context.Context, dataDir string) error {
	opts, err := join.Known(filepath.Join(dataDir, "agent"))
	if err != nil {
		return err
	}
	return join.Renew(ctx, opts)
}
