package network

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// onThread runs f on an operating system thread of its own, which ends with
// it: f may change what belongs to the thread.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked
		done <- f()
	}()
	return <-done
}

// inNamespace runs f in the network namespace at path.
func inNamespace(path string, f func() error) error {
	return onThread(func() error {
		ns, err := os.Open(path)
		if err != nil {
			return err
		}
		err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		if err := errors.Join(err, ns.Close()); err != nil {
			return fmt.Errorf("entering %s: %w", path, err)
		}
		return f()
	})
}

// createNamespace makes a network namespace with a working loopback and pins
// it at path.
func createNamespace(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making a network namespace: %w", err)
		}
		self := fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())
		if err := unix.Mount(self, path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("pinning a network namespace at %s: %w", path, err)
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
}

// isNamespace reports whether a namespace is pinned at path.
func isNamespace(path string) bool {
	var s unix.Statfs_t
	return unix.Statfs(path, &s) == nil && s.Type == unix.NSFS_MAGIC
}

// removeNamespace lets go of the namespace at path. One that does not exist is
// no error.
func removeNamespace(path string) error {
	for isNamespace(path) {
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmounting %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// inspect returns what the plugins made of the interface in the namespace.
func inspect(path string) (*Attachment, error) {
	a := &Attachment{Namespace: path}
	err := inNamespace(path, func() error {
		link, err := netlink.LinkByName(Interface)
		if err != nil {
			return fmt.Errorf("the plugins made no %s: %w", Interface, err)
		}
		a.MAC, a.MTU = link.Attrs().HardwareAddr.String(), link.Attrs().MTU
		for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
			addrs, err := netlink.AddrList(link, family)
			if err != nil {
				return fmt.Errorf("addresses of %s: %w", Interface, err)
			}
			for _, addr := range addrs {
				ip, ok := netip.AddrFromSlice(addr.IP)
				bits, _ := addr.Mask.Size()
				if ip = ip.Unmap(); ok && !ip.IsLinkLocalUnicast() {
					a.Addresses = append(a.Addresses, netip.PrefixFrom(ip, bits))
				}
			}
			routes, err := netlink.RouteList(link, family)
			if err != nil {
				return fmt.Errorf("routes of %s: %w", Interface, err)
			}
			for _, r := range routes {
				if route, ok := guestRoute(r, family); ok {
					a.Routes = append(a.Routes, route)
				}
			}
		}
		if len(a.Addresses) == 0 {
			return fmt.Errorf("the plugins gave %s no address", Interface)
		}
		// A gateway has to be on the link when its route is made.
		slices.SortStableFunc(a.Routes, func(x, y Route) int {
			switch {
			case x.Gateway.IsValid() == y.Gateway.IsValid():
				return 0
			case y.Gateway.IsValid():
				return -1
			}
			return 1
		})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return a, nil
}

// guestRoute returns a route for the guest, unless its kernel makes it by
// itself.
func guestRoute(r netlink.Route, family int) (Route, bool) {
	if r.Protocol == unix.RTPROT_KERNEL || r.Protocol == unix.RTPROT_RA || r.Table != unix.RT_TABLE_MAIN ||
		r.Type != unix.RTN_UNICAST {
		return Route{}, false
	}
	out := Route{Destination: netip.PrefixFrom(netip.IPv4Unspecified(), 0)}
	if family == netlink.FAMILY_V6 {
		out.Destination = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	if r.Dst != nil {
		ip, ok := netip.AddrFromSlice(r.Dst.IP)
		bits, _ := r.Dst.Mask.Size()
		if !ok || ip.IsLinkLocalUnicast() || ip.IsMulticast() {
			return Route{}, false
		}
		if family == netlink.FAMILY_V4 {
			ip = ip.Unmap()
		}
		out.Destination = netip.PrefixFrom(ip, bits)
	}
	if gw, ok := netip.AddrFromSlice(r.Gw); ok {
		out.Gateway = gw.Unmap()
	}
	return out, true
}
