package network

import (
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// tapName is the tap device's name in a pod's namespace.
const tapName = "tap0"

// openTap makes the tap device in the namespace and redirects what arrives at
// either of it and the pod's interface to the other one. The plugins' address
// stays on the interface, where it receives nothing any more: they look for it
// when they check.
func openTap(namespace string, mtu int) (_ *os.File, err error) {
	var tap *os.File
	err = inNamespace(namespace, func() error {
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
		if err := netlink.LinkSetMTU(inside, mtu); err != nil {
			return fmt.Errorf("MTU of %s: %w", tapName, err)
		}
		if err := redirect(inside, outside); err != nil {
			return err
		}
		if err := redirect(outside, inside); err != nil {
			return err
		}
		return netlink.LinkSetUp(inside)
	})
	if err != nil {
		if tap != nil {
			err = errors.Join(err, tap.Close())
		}
		return nil, fmt.Errorf("%s: %w", namespace, err)
	}
	return tap, nil
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

// redirect has what arrives at one interface leave at the other one.
func redirect(from, to netlink.Link) error {
	qdisc := &netlink.Ingress{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: from.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_INGRESS,
	}}
	// One of an earlier machine names a device that is gone.
	if err := netlink.QdiscDel(qdisc); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("ingress of %s: %w", from.Attrs().Name, err)
	}
	if err := netlink.QdiscAdd(qdisc); err != nil {
		return fmt.Errorf("ingress of %s: %w", from.Attrs().Name, err)
	}
	// u32 without a key matches everything; not every kernel has matchall.
	filter := &netlink.U32{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: from.Attrs().Index, Parent: netlink.MakeHandle(0xffff, 0), Priority: 1, Protocol: unix.ETH_P_ALL,
		},
		Actions: []netlink.Action{netlink.NewMirredAction(to.Attrs().Index)},
	}
	if err := netlink.FilterAdd(filter); err != nil {
		return fmt.Errorf("redirecting %s to %s: %w", from.Attrs().Name, to.Attrs().Name, err)
	}
	return nil
}
