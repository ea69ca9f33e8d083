package kubeconfig

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/clientcmd/api/latest"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/problem"
)

// DefaultMode is the mode of a kubeconfig: only its owner may read it.
const DefaultMode fs.FileMode = 0o600

// Options describes a kubeconfig with one cluster, user and context.
type Options struct {
	// Path is the file to write; missing directories are made.
	Path string
	// Mode of the file; 0 means DefaultMode.
	Mode fs.FileMode
	// Group owns the file, by name or number; empty leaves it as it is.
	Group string
	// GroupSource is the flag that Group came from, for errors.
	GroupSource string

	// Name of cluster, user and context; empty means "default".
	Name string
	// Server is the URL of the API.
	Server string
	// CAFile, CertFile and KeyFile are PEM files.
	CAFile, CertFile, KeyFile string
	// Embed copies the files into the kubeconfig instead of naming them.
	// Named files can be renewed without writing the kubeconfig again.
	Embed bool
	// AuthProvider is a plugin of the process that reads the file, nil for none.
	AuthProvider *api.AuthProviderConfig
}

// Write writes a kubeconfig, replacing the file at opts.Path.
func Write(opts Options) error {
	if opts.Mode == 0 {
		opts.Mode = DefaultMode
	}
	if opts.Name == "" {
		opts.Name = "default"
	}
	gid, err := lookupGroup(opts.GroupSource, opts.Group)
	if err != nil {
		return err
	}
	cluster := api.NewCluster()
	cluster.Server = opts.Server
	auth := api.NewAuthInfo()
	auth.AuthProvider = opts.AuthProvider
	if opts.Embed {
		for _, f := range []struct {
			path string
			dst  *[]byte
		}{
			{opts.CAFile, &cluster.CertificateAuthorityData},
			{opts.CertFile, &auth.ClientCertificateData},
			{opts.KeyFile, &auth.ClientKeyData},
		} {
			if *f.dst, err = os.ReadFile(f.path); err != nil {
				return fmt.Errorf("writing kubeconfig %s: %w", opts.Path, err)
			}
		}
	} else {
		cluster.CertificateAuthority = opts.CAFile
		auth.ClientCertificate, auth.ClientKey = opts.CertFile, opts.KeyFile
	}
	context := api.NewContext()
	context.Cluster, context.AuthInfo = opts.Name, opts.Name

	cfg := api.NewConfig()
	cfg.Clusters[opts.Name] = cluster
	cfg.AuthInfos[opts.Name] = auth
	cfg.Contexts[opts.Name] = context
	cfg.CurrentContext = opts.Name
	data, err := runtime.Encode(latest.Codec, cfg)
	if err != nil {
		return fmt.Errorf("encoding kubeconfig %s: %w", opts.Path, err)
	}
	if err := os.MkdirAll(filepath.Dir(opts.Path), 0o755); err != nil {
		return fmt.Errorf("writing kubeconfig %s: %w", opts.Path, err)
	}
	return atomicfile.WriteGroup(opts.Path, data, opts.Mode, gid)
}

// ParseMode reads an octal file mode; "" is DefaultMode. The error is a
// *problem.Input for source, a flag.
func ParseMode(source, text string) (fs.FileMode, error) {
	if text == "" {
		return DefaultMode, nil
	}
	n, err := strconv.ParseUint(text, 8, 32)
	// A kubeconfig is not executed and its owner must be able to read it.
	if err != nil || n&^0o666 != 0 || n&0o400 == 0 {
		return 0, &problem.Input{Source: source, Value: text, Want: "an octal file mode such as 600, 640 or 644"}
	}
	return fs.FileMode(n), nil
}

func lookupGroup(source, name string) (int, error) {
	if name == "" {
		return -1, nil
	}
	if gid, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(gid), nil
	}
	g, err := user.LookupGroup(name)
	if err == nil {
		var gid int
		if gid, err = strconv.Atoi(g.Gid); err == nil {
			return gid, nil
		}
	}
	return 0, &problem.Input{Source: source, Value: name, Err: err,
		Want: "the name or number of a group of this machine"}
}
