package cleanup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
	"github.com/vishvananda/netlink"

	"github.com/a4s-io/a4s/agent/host/hostprep"
	"github.com/a4s-io/a4s/agent/network"
	"github.com/a4s-io/a4s/agent/network/netdump"
	"github.com/a4s-io/a4s/agent/network/netfilter"
)

// Options say which a4s to clean up after.
type Options struct {
	// DataDir is its data directory.
	DataDir string
	// RunDir is its run directory; empty means /run/a4s.
	RunDir string
	// CgroupRoot is the parent of the kubelet's kubepods cgroup (kubelet's
	// --cgroup-root); empty means the root of each hierarchy.
	CgroupRoot string
	// Out gets one line for every kind of thing that was removed.
	Out io.Writer

	// Places of the machine; empty means the real ones. Tests set them.
	Proc          string // /proc
	Cgroup        string // /sys/fs/cgroup
	Systemd       string // /run/systemd/system, which is there if systemd runs
	PodLogs       string // /var/log/pods
	ContLogs      string // /var/log/containers
	CNIResults    string // /var/lib/cni/results
	DevicePlugins string // /var/lib/kubelet/device-plugins
	ProcSys       string // /proc/sys
}

// killer carries what the steps learn from each other.
type killer struct {
	Options
	reporter
	pods         ownPods
	containerIDs []string // sandboxes of DataDir
	sliceDirs    []string // cgroups of our pods that were removed
}

// Killall stops the server or agent of o.DataDir, its containerd and all its
// pods, and removes what they left on the machine. State in the data
// directory stays: the next start brings the pods back.
func Killall(ctx context.Context, o Options) error {
	k := &killer{Options: o.withDefaults()}
	k.reporter.out = k.Out
	if err := k.checkOwner(); err != nil {
		return err // the run directory is not ours to clean
	}
	k.pods = ownPods{dataDir: k.DataDir, uids: names(filepath.Join(k.DataDir, "agent", "kubelet", "pods"))}
	k.containerIDs = k.sandboxIDs()
	nw := &nodeNetwork{reporter: k.reporter, dataDir: k.DataDir, containerIDs: k.containerIDs}
	var errs []error
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"stopping a4s", k.stopServer},
		{"stopping containerd", k.stopContainerd},
		{"stopping virtual machines", k.stopMachines},
		{"stopping the proxy of Ingresses", k.stopProxy},
		{"stopping pods", k.killPods},
		{"unmounting", k.unmountAll},
		{"removing network links", nw.removeLinks},
		{"removing routes", nw.removeRoutes},
		{"removing nftables rules", nw.removeNftables},
		{"removing iptables rules", nw.removeIptables},
		{"removing cgroups", k.removeCgroups},
		{"stopping slices", k.stopSlices},
		{"restoring sysctls", k.restoreSysctls},
		{"removing files", k.removeFiles},
		{"removing the kubelet's socket", k.removeKubeletSocket},
	} {
		if err := step.run(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", step.name, err))
		}
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	def := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	def(&o.RunDir, "/run/a4s")
	def(&o.Proc, "/proc")
	def(&o.Cgroup, "/sys/fs/cgroup")
	def(&o.Systemd, "/run/systemd/system")
	def(&o.PodLogs, "/var/log/pods")
	def(&o.ContLogs, "/var/log/containers")
	def(&o.CNIResults, "/var/lib/cni/results")
	def(&o.DevicePlugins, "/var/lib/kubelet/device-plugins")
	def(&o.ProcSys, "/proc/sys")
	if o.Out == nil {
		o.Out = io.Discard
	}
	// /proc and mountinfo show real paths.
	for _, dir := range []*string{&o.DataDir, &o.RunDir} {
		*dir = filepath.Clean(*dir)
		if real, err := filepath.EvalSymlinks(*dir); err == nil {
			*dir = real
		}
	}
	return o
}

// reporter says what was removed, without out to nobody.
type reporter struct{ out io.Writer }

// report prints what a step removed; nothing when it removed nothing.
func (r reporter) report(n int, format string, args ...any) {
	if n == 0 || r.out == nil {
		return
	}
	if _, err := fmt.Fprintf(r.out, format+"\n", args...); err != nil {
		logrus.WithField("component", "killall").WithError(err).Debug("cannot print")
	}
}

// nodeNetwork removes what a4s made in the network namespace of the node.
type nodeNetwork struct {
	reporter
	dataDir      string
	containerIDs []string // sandboxes of dataDir
}

func (nw *nodeNetwork) removeNftables(ctx context.Context) error {
	gone, err := netfilter.RemoveTables(ctx, func(t netfilter.Table) bool {
		return t.Name == "kube-proxy" || network.IsTable(t) || strings.HasPrefix(t.Name, "a4s-") ||
			strings.HasPrefix(t.Name, "a4s_")
	})
	nw.report(len(gone), "removed %d nftables tables: %v", len(gone), gone)
	errs := []error{err}
	for _, family := range []string{"ip", "ip6"} {
		n, err := netfilter.RemoveCommentedRules(ctx,
			netfilter.Table{Family: family, Name: "cni_hostport"}, nw.containerIDs)
		nw.report(n, "removed %d host port rules from the nftables table %s cni_hostport", n, family)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (nw *nodeNetwork) removeIptables(ctx context.Context) error {
	n, err := netfilter.RemoveChains(ctx, ownChains)
	nw.report(n, "removed %d iptables chains", n)
	return err
}

// ownChains owns what kubelet, kube-proxy, flannel and the DNS make, and of the port
// mapping plugin's chains those of our network. The plugin's shared chains go
// with the last network that uses them.
func ownChains(chains []netfilter.Chain) []netfilter.Chain {
	own := netfilter.WithPrefix("KUBE-", "A4S-", network.ChainPrefix)(chains)
	var shared []netfilter.Chain
	foreign := false
	for _, c := range chains {
		switch {
		case strings.HasPrefix(c.Name, "CNI-HOSTPORT-"):
			shared = append(shared, c)
		case strings.HasPrefix(c.Name, "CNI-DN-"):
			if slices.ContainsFunc(c.Comments, func(s string) bool {
				return strings.Contains(s, `name: "`+network.CNIName+`"`)
			}) {
				own = append(own, c)
			} else {
				foreign = true
			}
		}
	}
	if !foreign {
		own = append(own, shared...)
	}
	return own
}

// restoreSysctls leaves forwarding on for a runtime that came later: it found
// it on, so it will not turn it on again.
func (k *killer) restoreSysctls(context.Context) error {
	var keep []string
	user, linksErr := forwardingUser()
	if user != "" {
		keep = hostprep.Forwarding
	}
	restored, err := hostprep.Restore(hostprep.Options{
		RecordFile: filepath.Join(k.DataDir, "agent", hostprep.RecordName),
		ProcSys:    k.ProcSys,
		Keep:       keep,
	})
	k.report(len(restored), "restored %d sysctls: %s", len(restored), strings.Join(restored, " "))
	return errors.Join(linksErr, err)
}

// runtimeBridges are how other container runtimes and hypervisors name the
// bridges of their networks.
var runtimeBridges = []string{"docker", "br-", "podman", "cni-podman", "nerdctl", "virbr", "lxcbr", "lxdbr", "incusbr"}

// forwardingUser names a bridge of someone else who may need forwarding.
func forwardingUser() (string, error) {
	links, err := netdump.Complete(netlink.LinkList)
	if err != nil {
		return "", err
	}
	for _, l := range links {
		if l.Type() == "bridge" &&
			slices.ContainsFunc(runtimeBridges, func(p string) bool { return strings.HasPrefix(l.Attrs().Name, p) }) {
			return l.Attrs().Name, nil
		}
	}
	return "", nil
}

// names lists a directory; a missing one is empty.
func names(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.Name()
	}
	return out
}

// below reports whether path is dir or inside it.
func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
