package cmd

import (
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
)

// VMRuntime are the settings of `a4s vm-runtime`.
type VMRuntime struct {
	Socket, Root, State     string
	Containerd, Snapshotter string
	CNIConfDir              string
	CNIBinDirs              []string
	Kernel, Initrd, Init    string
	Accelerator             string
	Debug                   bool
}

func vmRuntimeCommand(m Modes) *cli.Command {
	return leaf(&cli.Command{
		Name:      "vm-runtime",
		Usage:     "serve the CRI with pods that run as virtual machines",
		ArgsUsage: "[FLAGS]",
		Description: "The runtime service behind --runtime NAME,vm,builtin, which a4s starts itself.\n" +
			"It can also be run alone, for a kubelet or crictl. Virtual machines survive its\n" +
			"end and are found again when it is started with the same directories.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "socket", Value: "/run/a4s/vm/vm.sock",
				Usage: "serve the CRI on the unix socket at `PATH`"},
			&cli.StringFlag{Name: "root", Value: "/var/lib/a4s/agent/vm",
				Usage: "keep disks and records in the directory at `PATH`"},
			&cli.StringFlag{Name: "state", Value: "/run/a4s/vm",
				Usage: "keep what a reboot may lose in the directory at `PATH`"},
			&cli.StringFlag{Name: "containerd", Value: containerdAddress,
				Usage: "take images from the containerd at the socket `PATH`"},
			&cli.StringFlag{Name: "snapshotter", Value: "overlayfs",
				Usage: "`NAME` of the snapshotter that containerd unpacks images with"},
			&cli.StringFlag{Name: "cni-conf-dir", Value: "/var/lib/a4s/agent/etc/cni/net.d",
				Usage: "read the CNI configuration from the directory at `PATH`"},
			&cli.StringSliceFlag{Name: "cni-bin-dir", Usage: "directory of CNI plugins at `PATH`, repeatable",
				DefaultText: "/opt/cni/bin"},
			&cli.StringFlag{Name: "kernel", Usage: "kernel of the guest at `PATH`"},
			&cli.StringFlag{Name: "initrd", Usage: "initial RAM disk of the guest at `PATH`"},
			&cli.StringFlag{
				Name:        "init",
				Usage:       "init program of the guest at `PATH`, to be put into the initial RAM disk",
				DefaultText: "the one in it",
			},
			&cli.StringFlag{Name: "accelerator", Value: "auto", Usage: "how machines run: auto, kvm or tcg (`NAME`)"},
			&cli.BoolFlag{Name: "debug", Usage: "log more"},
		},
		Action: func(cCtx *cli.Context) error {
			if err := wantArgs(cCtx, 0, 0, "none"); err != nil {
				return err
			}
			o := &VMRuntime{
				Socket: cCtx.String("socket"), Root: cCtx.String("root"), State: cCtx.String("state"),
				Containerd: cCtx.String("containerd"), Snapshotter: cCtx.String("snapshotter"),
				CNIConfDir: cCtx.String("cni-conf-dir"), CNIBinDirs: cCtx.StringSlice("cni-bin-dir"),
				Kernel: cCtx.String("kernel"), Initrd: cCtx.String("initrd"), Init: cCtx.String("init"),
				Accelerator: cCtx.String("accelerator"), Debug: cCtx.Bool("debug"),
			}
			if len(o.CNIBinDirs) == 0 {
				o.CNIBinDirs = []string{"/opt/cni/bin"}
			}
			if !slices.Contains(config.VMAccelerators(), o.Accelerator) {
				return &problem.Input{Source: "--accelerator", Value: o.Accelerator, Want: "auto, kvm or tcg"}
			}
			return m.VMRuntime(cCtx.Context, o)
		},
	})
}
