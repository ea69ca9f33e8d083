package cmd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/homedir"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
)

func kubectlCommand(m Modes) *cli.Command {
	return leaf(&cli.Command{
		Name:      "kubectl",
		ArgsUsage: "[--tenant NAME] [ARGUMENTS OF KUBECTL]",
		Usage:     "run kubectl",
		Description: "The kubeconfig is that of --kubeconfig, else $KUBECONFIG, else ~/.kube/config, else the\n" +
			"admin kubeconfig of the server of this machine.\n" +
			"The space is that of --tenant, else that of a kubeconfig of a tenant, else the one that\n" +
			"manifests (-f, -k) name in metadata.tenant.",
		SkipFlagParsing: true,
		Action: action(func(c *call) error {
			run, err := newKubectlRun(c.args, os.Getenv(tenantEnv))
			if err != nil {
				return err
			}
			if path := defaultKubeconfig(run.Args); path != "" {
				// kubectl's plugins must find it as well.
				if err := os.Setenv(clientcmd.RecommendedConfigPathEnvVar, path); err != nil {
					return err
				}
			}
			return m.Kubectl(c.ctx, run)
		}),
	},
		text(tenantFlag, "", "",
			"work in the space of the tenant `NAME`, with the rights of the kubeconfig", "$"+tenantEnv),
	)
}

// defaultKubeconfig returns the admin kubeconfig if kubectl is to use it: if
// neither the arguments nor the environment name another, the user has none, and
// they can read it. Much of kubectl needs no server, so that an admin kubeconfig
// which cannot be read is no error here (see checkLoaded).
func defaultKubeconfig(args []string) string {
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
		return ""
	}
	for _, arg := range args {
		if arg == "--" {
			break
		}
		if arg == "--kubeconfig" || strings.HasPrefix(arg, "--kubeconfig=") {
			return ""
		}
	}
	if ownKubeconfig() {
		return ""
	}
	path := adminKubeconfig()
	if readable(path) != nil {
		return ""
	}
	return path
}

// ownKubeconfig reports whether the user has a kubeconfig where kubectl looks by
// itself, with anything in it. What cannot be read is kubectl's to report.
func ownKubeconfig() bool {
	cfg, err := clientcmd.LoadFromFile(filepath.Join(homedir.HomeDir(), clientcmd.RecommendedHomeDir,
		clientcmd.RecommendedFileName))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return !clientcmdapi.IsConfigEmpty(cfg)
}

// readable says why a file cannot be read.
func readable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return problem.WithoutPath(err)
	}
	return f.Close()
}

// adminKubeconfig returns where the server of this machine writes its admin
// kubeconfig. A configuration file that cannot be used is the server's
// problem: often only root can read it.
func adminKubeconfig() string {
	l, err := config.LoadLocal(source(nil))
	if err != nil {
		return config.DefaultKubeconfig
	}
	return l.Kubeconfig
}
