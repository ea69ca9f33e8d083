package agent

import (
	"context"
	"path/filepath"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/renewal"
)

// startCertificates keeps the certificates of the node from expiring. The
// kubelet and the clients read the files again.
func (n *Node) startCertificates(ctx context.Context, group *component.Group, options join.Options) {
	files := pki.NodeFilesIn(filepath.Join(n.dir, "tls"))
	group.Start(ctx, renewal.New(renewal.Options{
		Name:  "node-certificates",
		Files: []string{files.Client.Cert, files.Serving.Cert},
		Renew: func(ctx context.Context) error {
			err := join.Renew(ctx, options)
			if err == nil {
				n.log.Info("renewed the certificates of this node")
			}
			return err
		},
		Log: n.log,
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
