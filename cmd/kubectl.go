package cmd

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
)

func kubectlCommand(m Modes) *cobra.Command {
	return leaf(&cobra.Command{
		Use:   "kubectl [--tenant NAME] [ARGUMENTS OF KUBECTL]",
		Short: "run kubectl, by default with the admin kubeconfig",
		Long: "The space is that of --tenant, else the one that manifests (-f, -k) name in\n" +
			"metadata.tenant, else that of the kubeconfig.",
		DisableFlagParsing: true,
		RunE: action(func(c *call) error {
			run, err := newKubectlRun(c.args, os.Getenv(tenantEnv))
			if err != nil {
				return err
			}
			args := run.Args
			path, err := defaultKubeconfig(args)
			if err != nil {
				return err
			}
			if path != "" {
				// kubectl's plugins must find it as well.
				if err := os.Setenv("KUBECONFIG", path); err != nil {
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
// neither the arguments nor the environment name another and it exists.
func defaultKubeconfig(args []string) (string, error) {
	if os.Getenv("KUBECONFIG") != "" {
		return "", nil
	}
	for _, arg := range args {
		if arg == "--" {
			break
		}
		if arg == "--kubeconfig" || strings.HasPrefix(arg, "--kubeconfig=") {
			return "", nil
		}
	}
	path := adminKubeconfig()
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil // kubectl has defaults of its own
	case err != nil:
		return "", &problem.Input{Source: "kubeconfig " + path, Err: reason(err),
			Want: "to be run by a user who can read it (see --write-kubeconfig-mode of a4s server), " +
				"or another file in --kubeconfig or KUBECONFIG"}
	}
	return path, f.Close()
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

// reason drops the path from an error of package os.
func reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
