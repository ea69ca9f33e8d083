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
		ArgsUsage: "[FLAGS]",
		Usage:     "serve the CRI with pods that run as virtual machines",
		Description: "The runtime service behind --runtime NAME,vm,builtin, which a4s starts itself.\n" +
			"It can also be run alone, for a kubelet or crictl. Virtual machines survive its\n" +
			"end and are found again when it is started with the same directories.",
		Action: action(func(c *call) error {
			o := &VMRuntime{
				Socket: c.String("socket"), Root: c.String("root"), State: c.String("state"),
				Containerd: c.String("containerd"), Snapshotter: c.String("snapshotter"),
				CNIConfDir: c.String("cni-conf-dir"), CNIBinDirs: c.StringSlice("cni-bin-dir"),
				Kernel: c.String("kernel"), Initrd: c.String("initrd"), Init: c.String("init"),
				Accelerator: c.String("accelerator"), Debug: c.Bool("debug"),
			}
			if len(o.CNIBinDirs) == 0 {
				o.CNIBinDirs = []string{"/opt/cni/bin"}
			}
			if !slices.Contains(config.VMAccelerators(), o.Accelerator) {
				return &problem.Input{Source: "--accelerator", Value: o.Accelerator, Want: "auto, kvm or tcg"}
			}
			return m.VMRuntime(c.ctx, o)
		}),
	},
		text("socket", "", "/run/a4s/vm/vm.sock", "serve the CRI on the unix socket at `PATH`"),
		text("root", "", "/var/lib/a4s/agent/vm", "keep disks and records in the directory at `PATH`"),
		text("state", "", "/run/a4s/vm", "keep what a reboot may lose in the directory at `PATH`"),
		text("containerd", "", containerdAddress, "take images from the containerd at the socket `PATH`"),
		text("snapshotter", "", "overlayfs", "`NAME` of the snapshotter that containerd unpacks images with"),
		text("cni-conf-dir", "", "/var/lib/a4s/agent/etc/cni/net.d",
			"read the CNI configuration from the directory at `PATH`"),
		texts("cni-bin-dir", "", "directory of CNI plugins at `PATH`, repeatable (default: /opt/cni/bin)"),
		text("kernel", "", "", "kernel of the guest at `PATH`"),
		text("initrd", "", "", "initial RAM disk of the guest at `PATH`"),
		text("init", "", "",
			"init program of the guest at `PATH`, to be put into the initial RAM disk", "the one in it"),
		text("accelerator", "", "auto", "how machines run: auto, kvm or tcg (`NAME`)"),
		toggle("debug", "", "log more"),
	)
}
