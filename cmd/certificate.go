package cmd

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
)

// States of a certificate.
const (
	certOK       = "ok"
	certExpiring = "expiring" // should have been renewed, or is of a CA in its last year
	certExpired  = "expired"
	certBad      = "unreadable"
)

// certificate is one row of `a4s certificate check`.
type certificate struct {
	File string `json:"file"`
	// User is what works with the certificate.
	User    string `json:"user"`
	CA      bool   `json:"ca"`
	Subject string `json:"subject,omitempty"`
	// Serial is the number of the certificate, in hexadecimal digits.
	Serial string `json:"serial,omitempty"`
	State  string `json:"state"`
	// Error is why it is unreadable.
	Error string `json:"error,omitempty"`

	NotBefore time.Time `json:"notBefore,omitzero"`
	NotAfter  time.Time `json:"notAfter,omitzero"`
	// RenewAt is when a running a4s renews it; CAs are not renewed.
	RenewAt time.Time `json:"renewAt,omitzero"`
}

func certificateCommand(m Modes) *cli.Command {
	return group(&cli.Command{
		Name:        "certificate",
		Usage:       "show and renew the certificates of this machine",
		Description: "A running server or agent renews its certificates in time by itself.",
	},
		leaf(&cli.Command{
			Name:        "check",
			ArgsUsage:   "[FLAGS]",
			Usage:       "show the certificates of this machine, when they expire and who uses them",
			Description: "The exit code is 1 if one has expired, is about to, or cannot be read.",
			Action:      action(func(c *call) error { return checkCertificates(c, time.Now()) }),
		},
			append(localFlags(), outputFlag())...),
		leaf(&cli.Command{
			Name:      "rotate",
			ArgsUsage: "[FLAGS]",
			Usage:     "renew all certificates of this machine now",
			Description: "Needs a server that runs: the one of this machine, or the one that its node\n" +
				"joined. Nothing is restarted; keys and CAs stay.",
			Action: action(func(c *call) error { return rotateCertificates(c, m) }),
		},
			append(localFlags(), outputFlag(), kubeconfigFlag())...),
		rotateCACommand(m),
	)
}

// certificateArgs are the settings of this machine and the format of the output.
func certificateArgs(c *call) (*config.Local, string, error) {
	format, err := outputFormat(c)
	if err != nil {
		return nil, "", err
	}
	l, err := local(c)
	return l, format, err
}

// roles says what of a4s keeps certificates in the data directory.
func roles(dataDir string) (server *pki.Files, node *pki.NodeFiles, err error) {
	s, n := pki.FilesIn(filepath.Join(dataDir, "server", "tls")),
		pki.NodeFilesIn(filepath.Join(dataDir, "agent", "tls"))
	exists := func(file string) bool {
		_, statErr := os.Stat(file)
		if statErr != nil && !errors.Is(statErr, fs.ErrNotExist) {
			err = &problem.Precondition{What: "certificate file " + file, Err: problem.WithoutPath(statErr),
				Fix: "run the command as root"}
		}
		return statErr == nil
	}
	if exists(s.Dir) {
		server = s
	}
	if exists(n.Client.Cert) {
		node = &n
	}
	if err == nil && server == nil && node == nil {
		err = &problem.Precondition{What: "data directory " + dataDir, Err: errors.New("has no certificates"),
			Fix: "start a4s on this machine, or name another directory with --data-dir"}
	}
	return server, node, err
}

func checkCertificates(c *call, now time.Time) error {
	l, format, err := certificateArgs(c)
	if err != nil {
		return err
	}
	server, node, err := roles(l.DataDir)
	if err != nil {
		return err
	}
	var rows []certificate
	if server != nil {
		for _, u := range server.Uses() {
			rows = append(rows, inspect(u, now, pki.ReadCert))
		}
		rows = append(rows,
			inspect(pki.Use{File: l.Kubeconfig, User: "administrator (copy in kubeconfig)"}, now, embeddedCert))
	}
	if node != nil {
		for _, u := range node.Uses() {
			rows = append(rows, inspect(u, now, pki.ReadCert))
		}
	}
	bad := 0
	for _, r := range rows {
		if r.State != certOK {
			bad++
		}
	}
	if err := writeCertificates(c.out, rows, format, now); err != nil {
		return err
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d certificates have expired, are about to or cannot be read", bad, len(rows))
	}
	return nil
}

func rotateCertificates(c *call, m Modes) error {
	l, format, err := certificateArgs(c)
	if err != nil {
		return err
	}
	server, node, err := roles(l.DataDir)
	if err != nil {
		return err
	}
	var resp joinapi.CertificatesResponse
	if server != nil {
		cl, err := newClient(c)
		if err != nil {
			return err
		}
		if err := cl.do(c.ctx, http.MethodPost, joinapi.PathCertificates, nil, &resp); err != nil {
			return err
		}
	}
	if node != nil {
		if err := m.RenewNode(c.ctx, l.DataDir); err != nil {
			return err
		}
		resp.Renewed = append(resp.Renewed, node.Serving.Cert, node.Client.Cert)
	}
	if format == "json" {
		return encode(c.out, resp)
	}
	for _, file := range resp.Renewed {
		if _, err := problem.Show(c.out, "renewed %s\n", file); err != nil {
			return err
		}
	}
	return nil
}

// embeddedCert reads the client certificate in a kubeconfig.
func embeddedCert(path string) (*x509.Certificate, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return nil, err
	}
	certs, err := pki.ParseCerts(cfg.CertData)
	if err != nil {
		return nil, err
	}
	return certs[0], nil
}

func inspect(u pki.Use, now time.Time, read func(string) (*x509.Certificate, error)) certificate {
	row := certificate{File: u.File, User: u.User, CA: u.CA, State: certBad}
	cert, err := read(u.File)
	if err != nil {
		row.Error = problem.WithoutPath(err).Error()
		return row
	}
	row.Subject, row.NotBefore, row.NotAfter = cert.Subject.String(), cert.NotBefore, cert.NotAfter
	row.Serial = cert.SerialNumber.Text(16)
	if !u.CA {
		row.RenewAt = pki.RenewAt(cert)
	}
	switch {
	case !now.Before(cert.NotAfter):
		row.State = certExpired
	case !now.Before(u.WarnAt(cert)):
		row.State = certExpiring
	default:
		row.State = certOK
	}
	return row
}

func writeCertificates(out io.Writer, rows []certificate, format string, now time.Time) error {
	if format == "json" {
		return encode(out, rows)
	}
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0) // Flush reports errors
	fmt.Fprintln(w, "STATE\tEXPIRES\tIN\tRENEWED IN\tUSED BY\tFILE")
	for _, r := range rows {
		if r.State == certBad {
			problem.Show(w, "%s\t\t\t\t%s\t%s: %s\n", r.State, r.User, r.File, firstLine(r.Error))
			continue
		}
		renewed := ""
		if !r.CA {
			renewed = duration.HumanDuration(max(0, r.RenewAt.Sub(now)))
		}
		problem.Show(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.State, r.NotAfter.UTC().Format(time.RFC3339),
			duration.HumanDuration(max(0, r.NotAfter.Sub(now))), renewed, r.User, r.File)
	}
	return w.Flush()
}
