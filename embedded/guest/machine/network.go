//go:build linux

package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/embedded/guest/protocol"
	"github.com/a4s-io/a4s/embedded/guest/server"
)

// linkTimeout is how long a network interface is waited for.
const linkTimeout = 15 * time.Second

// setupNetwork gives interfaces their names and addresses.
func setupNetwork(ctx context.Context, s protocol.Sandbox) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("loopback interface: %w", err)
	}
	for _, i := range s.Interfaces {
		if err := setupInterface(ctx, i); err != nil {
			return fmt.Errorf("interface %s: %w", i.Name, err)
		}
	}
	for _, r := range s.Routes {
		if err := addRoute(s, r); err != nil {
			return fmt.Errorf("route to %q by %q: %w", r.Destination, r.Gateway, err)
		}
	}
	return nil
}

func setupInterface(ctx context.Context, i protocol.Interface) error {
	mac, err := net.ParseMAC(i.MAC)
	if err != nil {
		return server.Errorf(protocol.CodeInvalid, "%w", err)
	}
	link, err := waitFor(ctx, linkTimeout, func() (netlink.Link, error) { return linkByMAC(mac) })
	if err != nil {
		return server.Errorf(protocol.CodeNotFound, "no interface %s: %w", i.MAC, err)
	}
	if link.Attrs().Name != i.Name {
		if err := netlink.LinkSetDown(link); err != nil {
			return err
		}
		if err := netlink.LinkSetName(link, i.Name); err != nil {
			return fmt.Errorf("renaming %s: %w", link.Attrs().Name, err)
		}
	}
	// Addresses are what the sandbox says, nothing that somebody advertises.
	for _, name := range []string{"accept_ra", "autoconf"} {
		if err := writeFile("/proc/sys/net/ipv6/conf/"+i.Name+"/"+name, "0"); ignoreMissing(err) != nil {
			return err
		}
	}
	if i.MTU > 0 && link.Attrs().MTU != i.MTU {
		if err := netlink.LinkSetMTU(link, i.MTU); err != nil {
			return fmt.Errorf("MTU %d: %w", i.MTU, err)
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	return setAddresses(link, i.Addresses)
}

func linkByMAC(mac net.HardwareAddr) (netlink.Link, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		if bytes.Equal(l.Attrs().HardwareAddr, mac) {
			return l, nil
		}
	}
	return nil, os.ErrNotExist
}

// setAddresses makes the addresses those that are wanted.
func setAddresses(link netlink.Link, want []string) error {
	var wanted []*netlink.Addr
	keep := map[string]bool{}
	for _, text := range want {
		addr, err := netlink.ParseAddr(text)
		if err != nil {
			return server.Errorf(protocol.CodeInvalid, "address %q: %w", text, err)
		}
		if addr.IP.To4() == nil {
			// Nobody else on the host's end of the cable has it.
			addr.Flags |= unix.IFA_F_NODAD
		}
		wanted = append(wanted, addr)
		keep[addr.IPNet.String()] = true
	}
	have, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	// First, because the kernel takes away others of a network with its first.
	for _, a := range have {
		if a.Scope == int(netlink.SCOPE_LINK) || keep[a.IPNet.String()] {
			continue
		}
		if err := netlink.AddrDel(link, &a); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return fmt.Errorf("removing address %s: %w", a.IPNet, err)
		}
	}
	for _, addr := range wanted {
		if err := netlink.AddrReplace(link, addr); err != nil {
			return fmt.Errorf("address %s: %w", addr.IPNet, err)
		}
	}
	return nil
}

func addRoute(s protocol.Sandbox, r protocol.Route) error {
	name := r.Interface
	if name == "" && len(s.Interfaces) > 0 {
		name = s.Interfaces[0].Name
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return server.Errorf(protocol.CodeInvalid, "interface %q: %w", name, err)
	}
	route := netlink.Route{LinkIndex: link.Attrs().Index, MTU: r.MTU}
	if r.Gateway != "" {
		if route.Gw = net.ParseIP(r.Gateway); route.Gw == nil {
			return server.Errorf(protocol.CodeInvalid, "not an address")
		}
	} else {
		route.Scope = netlink.SCOPE_LINK
	}
	if r.OnLink {
		route.Flags |= int(netlink.FLAG_ONLINK)
	}
	switch {
	case r.Destination != "":
		if _, route.Dst, err = net.ParseCIDR(r.Destination); err != nil {
			return server.Errorf(protocol.CodeInvalid, "%w", err)
		}
	case route.Gw == nil:
		return server.Errorf(protocol.CodeInvalid, "neither a destination nor a gateway")
	case route.Gw.To4() != nil:
		route.Dst = &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
	default:
		route.Dst = &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
	}
	err = netlink.RouteReplace(&route)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}
