package pki

import (
	"cmp"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/problem"
)

// Options says what Ensure makes.
type Options struct {
	// SANs are the names and addresses of the API and supervisor port. Each
	// is an IP address or a DNS name.
	SANs []string
	// EtcdSANs are the names and addresses at which other servers reach the
	// datastore of this one, besides loopback.
	EtcdSANs []string
	// Partition is the name of the partition, "" for the home partition.
	Partition string
	// Log receives a line for each certificate that is made or renewed.
	Log *logrus.Entry
	// Now replaces the clock; nil means time.Now.
	Now func() time.Time
	// Life is how long a leaf certificate is valid; 0 means LeafLife.
	Life time.Duration
	// Force renews every leaf certificate, however long it is still valid.
	Force bool
}

func (o *Options) complete() {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = logrus.WithField("component", "pki")
	}
	if o.Life == 0 {
		o.Life = LeafLife
	}
}

// Ensure makes the PKI in dir on first start, with the CAs that are there
// already, and afterwards checks it and renews the leaf certificates that need
// it. The parent of dir must exist.
func Ensure(dir string, opts Options) (*Files, error) {
	opts.complete()
	f := FilesIn(dir)
	if err := ensureAuthorities(f, opts); err != nil {
		return nil, err
	}
	if _, err := loadKey(f.ServiceAccountKey); err != nil {
		return nil, &problem.Precondition{What: "service-account key " + f.ServiceAccountKey, Err: err, Fix: fixCA}
	}
	if err := f.writeSigners(); err != nil {
		return nil, err
	}
	_, err := f.renew(opts)
	return f, err
}

// Renew renews the leaf certificates in dir that need it, with the keys that
// they have, and returns the files that it replaced, also with an error. What
// reads them never sees a certificate that does not belong to its key.
func Renew(dir string, opts Options) ([]string, error) {
	opts.complete()
	return FilesIn(dir).renew(opts)
}

func (f *Files) renew(opts Options) ([]string, error) {
	authorities := map[Pair]*CA{}
	for _, ca := range f.authorities() {
		a, err := loadCA(ca.pair, opts.Now)
		if err != nil {
			return nil, err
		}
		if left := a.certs[0].NotAfter.Sub(opts.Now()); left < LeafLife {
			opts.Log.Warnf("certificate authority %s expires in %d days; `a4s certificate rotate-ca` replaces it",
				ca.pair.Cert, int(left.Hours()/24))
		}
		authorities[ca.pair] = a.WithLife(opts.Life)
	}
	var replaced []string
	for _, l := range f.leaves(opts) {
		done, err := ensureLeaf(l.pair, authorities[l.ca], l.leaf, opts)
		if err != nil {
			return replaced, err
		}
		if done {
			replaced = append(replaced, l.pair.Cert)
		}
	}
	return replaced, nil
}

// serverCAName is the name of the CA that clients with join tokens and
// kubeconfigs trust.
const serverCAName = "server-ca"

type authorityFile struct {
	name string
	pair Pair
}

func (f *Files) authorities() []authorityFile {
	return []authorityFile{
		{serverCAName, f.ServerCA},
		{"client-ca", f.ClientCA},
		{"request-header-ca", f.RequestHeaderCA},
		{"etcd-server-ca", f.EtcdServerCA},
		{"etcd-peer-ca", f.EtcdPeerCA},
	}
}

type leafFile struct {
	pair, ca Pair
	leaf     Leaf
}

func (f *Files) leaves(opts Options) []leafFile {
	client := func(pair, ca Pair, cn string, org ...string) leafFile {
		return leafFile{pair, ca, Leaf{CommonName: cn, Organization: org, Client: true}}
	}
	names, ips := SplitSANs(opts.SANs)
	etcdNames, etcdIPs := SplitSANs(append([]string{"localhost", "127.0.0.1", "::1"}, opts.EtcdSANs...))
	// etcd dials itself with its serving certificate.
	etcdServer := Leaf{DNSNames: etcdNames, IPs: etcdIPs, Client: true, Server: true}
	etcdPeer := etcdServer
	etcdServer.CommonName, etcdPeer.CommonName = "etcd-server", "etcd-peer"
	return []leafFile{
		{f.ServingAPIServer, f.ServerCA, Leaf{CommonName: "kube-apiserver", DNSNames: names, IPs: ips, Server: true}},
		client(f.Admin, f.ClientCA, "system:admin", GroupMasters),
		client(f.Supervisor, f.ClientCA, UserSupervisor, GroupMasters),
		client(f.ControllerManager, f.ClientCA, "system:kube-controller-manager"),
		client(f.Scheduler, f.ClientCA, "system:kube-scheduler"),
		client(f.APIServerKubeletClient, f.ClientCA, UserKubeletClient),
		client(f.Partition, f.ClientCA, PartitionUserPrefix+cmp.Or(opts.Partition, HomePartition), GroupPartitions),
		client(f.AuthProxy, f.RequestHeaderCA, UserAuthProxy),
		client(f.EtcdClient, f.EtcdServerCA, "etcd-client"),
		{f.EtcdServer, f.EtcdServerCA, etcdServer},
		{f.EtcdPeer, f.EtcdPeerCA, etcdPeer},
	}
}

// SplitSANs sorts names and addresses apart and drops duplicates.
func SplitSANs(sans []string) (names []string, ips []net.IP) {
	for _, s := range sans {
		if ip := net.ParseIP(s); ip != nil {
			if !slices.ContainsFunc(ips, ip.Equal) {
				ips = append(ips, ip)
			}
		} else if s != "" && !slices.Contains(names, s) {
			names = append(names, s)
		}
	}
	return names, ips
}

func loadKey(path string) (crypto.Signer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return ParseKey(data)
}

// ensureLeaf keeps the key of a leaf and renews the certificate if needed. A
// damaged leaf is not replaced silently: it reports a damaged disk.
func ensureLeaf(p Pair, ca *CA, want Leaf, opts Options) (replaced bool, err error) {
	bad := func(file string, err error) (bool, error) {
		return false, &problem.Precondition{What: "certificate file " + file, Err: err,
			Fix: fmt.Sprintf("check the disk, then remove %s and %s; they are made again at the next start",
				p.Cert, p.Key)}
	}
	key, err := EnsureKey(p.Key)
	if err != nil {
		var pre *problem.Precondition
		var pathErr *fs.PathError
		if errors.As(err, &pre) || errors.As(err, &pathErr) {
			return false, err // writing or reading failed; the content is not at fault
		}
		return bad(p.Key, err)
	}
	reason := "it did not exist"
	data, err := os.ReadFile(p.Cert)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return false, err
	default:
		certs, err := ParseCerts(data)
		if err != nil {
			return bad(p.Cert, err)
		}
		if !samePublicKey(certs[0].PublicKey, key.Public()) {
			return bad(p.Key, fmt.Errorf("does not belong to the certificate %s", p.Cert))
		}
		if reason = renewReason(certs[0], ca, want, opts.Now()); reason == "" &&
			!slices.EqualFunc(certs[1:], ca.intermediates(), (*x509.Certificate).Equal) {
			reason = "the certificate authorities above its own changed"
		}
		if reason == "" && opts.Force {
			reason = "it was asked for"
		}
		if reason == "" {
			return false, nil
		}
	}
	signed, err := ca.Sign(key.Public(), want)
	if err != nil {
		return false, fmt.Errorf("signing %s: %w", p.Cert, err)
	}
	if err := atomicfile.Write(p.Cert, signed, 0o644); err != nil {
		return false, err
	}
	opts.Log.WithField("file", p.Cert).Debugf("signed a certificate because %s", reason)
	return true, nil
}

// renewReason says why cert has to be replaced, or "" if it is good.
func renewReason(cert *x509.Certificate, ca *CA, want Leaf, now time.Time) string {
	switch {
	// One that ends with its CA cannot be made to last any longer.
	case !now.Before(RenewAt(cert)) && cert.NotAfter.Before(ca.certs[0].NotAfter):
		return "the old one expires on " + cert.NotAfter.Format(time.RFC3339)
	case now.Before(cert.NotBefore):
		return "the old one is not valid yet"
	case cert.CheckSignatureFrom(ca.certs[0]) != nil:
		return "the certificate authority changed"
	case cert.Subject.CommonName != want.CommonName || !slices.Equal(cert.Subject.Organization, want.Organization):
		return "its subject changed"
	case !sameSet(cert.DNSNames, want.DNSNames) || !sameSet(ipStrings(cert.IPAddresses), ipStrings(want.IPs)):
		return "its names or addresses changed"
	}
	return ""
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

func ipStrings(ips []net.IP) []string {
	out := make([]string, 0, len(ips))
	for _, ip := range ips {
		out = append(out, ip.String())
	}
	return out
}
