package cmd

import (
	"os"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/config"
)

// Where the containerd carried in a4s is, for ctr.
const (
	containerdAddress   = "/run/a4s/containerd/containerd.sock"
	containerdNamespace = "k8s.io"
)

func ctrCommand(m Modes) *cli.Command {
	return leaf(&cli.Command{
		Name:            "ctr",
		ArgsUsage:       "[ARGUMENTS OF CTR]",
		Usage:           "run ctr against the containerd carried in a4s",
		SkipFlagParsing: true,
		Action: action(func(c *call) error {
			// ctr's own flags win over these variables.
			for name, value := range map[string]string{
				"CONTAINERD_ADDRESS":   containerdAddress,
				"CONTAINERD_NAMESPACE": containerdNamespace,
			} {
				if os.Getenv(name) != "" {
					continue
				}
				if err := os.Setenv(name, value); err != nil {
					return err
				}
			}
			return m.Ctr(c.ctx, c.args)
		}),
	})
}

func crictlCommand(m Modes) *cli.Command {
	return leaf(&cli.Command{
		Name:      "crictl",
		ArgsUsage: "[ARGUMENTS OF CRICTL]",
		Usage:     "run crictl against the container runtimes of this node",
		Description: "It sees what the kubelet sees: the pods and containers of all runtimes. Another endpoint is\n" +
			"that of --runtime-endpoint, else $CONTAINER_RUNTIME_ENDPOINT.",
		SkipFlagParsing: true,
		Action: action(func(c *call) error {
			l, err := config.LoadLocal(source(nil))
			if err != nil {
				return err
			}
			return m.Crictl(c.ctx, l.DataDir, c.args)
		}),
	})
}
