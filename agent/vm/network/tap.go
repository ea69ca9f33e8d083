package network

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// tapName is the tap device's name in a pod's namespace.
const tapName = "tap0"

// everything is what may reach a guest: u32 without a comparison, because not
// every kernel has matchall.
var everything = []rule{{protocol: unix.ETH_P_ALL, keys: []key{{}}}}

// openTap makes the tap device in the namespace and redirects what arrives at
// either of it and the pod's interface to the other one. The plugins' address
// stays on the interface, where it receives nothing any more: they look for it
// when they check.
func openTap(a *Attachment) (_ *os.File, err error) {
	mac, err := net.ParseMAC(a.MAC)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.Namespace, err)
	}
	if len(mac) != 6 {
		return nil, fmt.Errorf("%s: a guest has no interface with the address %s", a.Namespace, mac)
	}
	var tap *os.File
	err = inNamespace(a.Namespace, func() error {
		if tap, err = newTap(tapName); err != nil {
			return fmt.Errorf("making %s: %w", tapName, err)
		}
		inside, err := netlink.LinkByName(tapName)
		if err != nil {
			return err
		}
		outside, err := netlink.LinkByName(Interface)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetMTU(inside, a.MTU); err != nil {
			return fmt.Errorf("MTU of %s: %w", tapName, err)
		}
		if err := forwardNothing(); err != nil {
			return err
		}
		if err := redirect(inside, outside, sourceRules(mac, a.Addresses)); err != nil {
			return err
		}
		if err := redirect(outside, inside, everything); err != nil {
			return err
		}
		return netlink.LinkSetUp(inside)
	})
	if err != nil {
		if tap != nil {
			err = errors.Join(err, tap.Close())
		}
		return nil, fmt.Errorf("%s: %w", a.Namespace, err)
	}
	return tap, nil
}

// forwardNothing has the thread's network namespace keep what it receives,
// which a new one may have inherited otherwise.
func forwardNothing() error {
	for file, value := range map[string]string{"ipv4/ip_forward": "0", "ipv6/conf/all/forwarding": "0",
		"ipv6/conf/" + tapName + "/disable_ipv6": "1"} {
		err := os.WriteFile("/proc/sys/net/"+file, []byte(value), 0)
		if err != nil && !(errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(file, "ipv6/")) {
			return err
		}
	}
	return nil
}

// newTap makes a tap device in the thread's network namespace, which goes with
// the file.
func newTap(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		// With the header, segments and checksums are left to whoever can do
		// them best.
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "tap "+name), nil
}

// ingress is where filters of what arrives at an interface hang.
var ingress = netlink.MakeHandle(0xffff, 0)

// redirect has what arrives at one interface leave at the other one, as the
// rules say.
func redirect(from, to netlink.Link, rules []rule) error {
	qdisc := &netlink.Ingress{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: from.Attrs().Index, Handle: ingress, Parent: netlink.HANDLE_INGRESS,
	}}
	// One of an earlier machine names a device that is gone.
	if err := netlink.QdiscDel(qdisc); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("ingress of %s: %w", from.Attrs().Name, err)
	}
	if err := netlink.QdiscAdd(qdisc); err != nil {
		return fmt.Errorf("ingress of %s: %w", from.Attrs().Name, err)
	}
	return install(rules, from, to)
}
