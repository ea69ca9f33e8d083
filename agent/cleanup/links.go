package cleanup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/agent/network"
	"github.com/a4s-io/a4s/agent/network/netdump"
)

// ownLinks are the devices that a4s makes in the network namespace of a node.
var ownLinks = []string{network.BridgeName, network.VXLANName, "a4s-dns", "kube-ipvs0"}

func (nw *nodeNetwork) removeLinks(context.Context) error {
	links, err := netdump.Complete(netlink.LinkList)
	if err != nil {
		return err
	}
	bridge := 0
	for _, l := range links {
		if l.Attrs().Name == network.BridgeName {
			bridge = l.Attrs().Index
		}
	}
	var gone []string
	var errs []error
	for _, l := range links {
		a := l.Attrs()
		// A pod's veth goes with its network namespace, a little later; one
		// whose namespace is held by something would stay.
		ofPod := bridge != 0 && a.MasterIndex == bridge && l.Type() == "veth"
		if !ofPod && !slices.Contains(ownLinks, a.Name) {
			continue
		}
		err := netlink.LinkDel(l)
		switch {
		case err == nil:
			gone = append(gone, a.Name)
		case errors.Is(err, unix.ENODEV):
		default:
			errs = append(errs, fmt.Errorf("%s: %w", a.Name, err))
		}
	}
	nw.report(len(gone), "removed %d network links: %s", len(gone), strings.Join(gone, " "))
	return errors.Join(errs...)
}

// removeRoutes deletes the routes to other nodes' pods that the host-gw
// backend leaves; those of vxlan went with their device.
func (nw *nodeNetwork) removeRoutes(context.Context) error {
	path := network.NetConfPath(nw.dataDir)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var conf struct{ Network string }
	if err := json.Unmarshal(data, &conf); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	_, pods, err := net.ParseCIDR(conf.Network)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	routes, err := netdump.Complete(func() ([]netlink.Route, error) {
		return netlink.RouteList(nil, netlink.FAMILY_V4)
	})
	if err != nil {
		return err
	}
	removed := 0
	var errs []error
	for _, r := range routes {
		// Direct routes belong to interfaces, not to flannel.
		if r.Dst == nil || r.Gw == nil || !pods.Contains(r.Dst.IP) || ones(r.Dst.Mask) < ones(pods.Mask) {
			continue
		}
		if err := netlink.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("route to %s: %w", r.Dst, err))
			continue
		}
		removed++
	}
	nw.report(removed, "removed %d routes to pods of other nodes", removed)
	return errors.Join(errs...)
}

func ones(m net.IPMask) int {
	n, _ := m.Size()
	return n
}
