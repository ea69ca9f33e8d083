package join

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/agent/cluster/loadbalancer"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
)

// Renew has the certificates of a node that has joined signed once more, with
// the keys that it has. It tries once, with the certificate of the node and,
// if the server does not take that, with the token.
func Renew(ctx context.Context, opts Options) error {
	j, err := newJoiner(opts)
	if err != nil {
		return err
	}
	if _, err = j.attempt(ctx); err != nil {
		return fmt.Errorf("renewing the certificates of this node: %w", err)
	}
	return nil
}

// CredentialFile is the kubeconfig of a node that has joined; dir is its agent
// directory.
func CredentialFile(dir string) string { return filepath.Join(dir, "node.kubeconfig") }

// Known returns the options that the node with the agent directory dir joined
// with, but for the token, as far as its files tell.
func Known(dir string) (Options, error) {
	opts := Options{Dir: dir}
	bad := func(file string, err error) (Options, error) {
		return opts, &problem.Precondition{What: "node file " + file, Err: err,
			Fix: "start a4s, so that this node joins a server and gets new files"}
	}
	credential := CredentialFile(dir)
	data, err := os.ReadFile(credential)
	if err != nil {
		return bad(credential, err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return bad(credential, err)
	}
	opts.ServerURL = config.Host
	if servers := loadbalancer.Recall(dir, config.Host); len(servers) > 0 {
		opts.ServerURL = servers[0]
		opts.Servers = func(context.Context) []string { return servers }
	}
	files := pki.NodeFilesIn(filepath.Join(dir, "tls"))
	cert, err := pki.ReadCert(files.Serving.Cert)
	if err != nil {
		return bad(files.Serving.Cert, err)
	}
	name, found := strings.CutPrefix(cert.Subject.CommonName, pki.NodeUserPrefix)
	if !found {
		return bad(files.Serving.Cert, errors.New("it is not from a server"))
	}
	opts.NodeName = name
	opts.NodeIPs = addresses(cert.IPAddresses)
	return opts, nil
}

func addresses(ips []net.IP) []string {
	out := make([]string, 0, len(ips))
	for _, ip := range ips {
		out = append(out, ip.String())
	}
	return out
}
