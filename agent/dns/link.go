package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/agent/network/netdump"
	"github.com/a4s-io/a4s/internal/problem"
)

// LinkName is the link that holds the cluster DNS address. It is a dummy or,
// on a kernel without that driver, a bridge without ports: no packet passes
// through it either way, and pods need the bridge driver anyhow.
const LinkName = "a4s-dns"

// prepare gives the node the address and takes it out of connection tracking.
// It changes nothing where all is in place.
func prepare(ctx context.Context, addr netip.Addr, notrack *noTrack) error {
	if err := ensureLink(addr, notrack.keep()...); err != nil {
		return &problem.Precondition{
			What: fmt.Sprintf("link %s with the cluster DNS address %s", LinkName, addr),
			Fix:  "a4s needs CAP_NET_ADMIN and the kernel module dummy or bridge", Err: err,
		}
	}
	return notrack.ensure(ctx)
}

// ensureLink makes the link, with addr as its address. Others than that and keep go.
func ensureLink(addr netip.Addr, keep ...netip.Addr) error {
	link, err := netlink.LinkByName(LinkName)
	if isNoLink(err) {
		link, err = addLink()
	}
	if err != nil {
		return err
	}
	if !ours(link) {
		return fmt.Errorf("a link of that name exists and is of type %s", link.Type())
	}
	want := &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(addr.BitLen(), addr.BitLen())}
	have, err := netdump.Complete(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Errorf("listing addresses: %w", err)
	}
	found := false
	for i := range have {
		switch {
		case have[i].IPNet.String() == want.String():
			found = true
		case has(keep, have[i].IP):
		case !have[i].IP.IsLinkLocalUnicast(): // of another --cluster-dns
			if err := netlink.AddrDel(link, &have[i]); err != nil {
				return fmt.Errorf("removing %s: %w", have[i].IPNet, err)
			}
		}
	}
	if !found {
		a := &netlink.Addr{IPNet: want}
		if addr.Is6() {
			a.Flags = syscall.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(link, a); err != nil && !errors.Is(err, syscall.EEXIST) {
			return fmt.Errorf("adding the address: %w", err)
		}
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("setting up: %w", err)
		}
	}
	return nil
}

func has(all []netip.Addr, ip net.IP) bool {
	addr, ok := netip.AddrFromSlice(ip)
	return ok && slices.Contains(all, addr.Unmap())
}

// watchLink returns what learns when the link is deleted or set down.
func watchLink(ctx context.Context) (<-chan struct{}, error) {
	updates, changed := make(chan netlink.LinkUpdate, 64), make(chan struct{}, 1)
	if err := netlink.LinkSubscribe(updates, ctx.Done()); err != nil {
		return nil, fmt.Errorf("watching links: %w", err)
	}
	go func() {
		for u := range updates {
			if u.Attrs().Name != LinkName || u.Header.Type != unix.RTM_DELLINK && u.Attrs().Flags&net.FlagUp != 0 {
				continue
			}
			select {
			case changed <- struct{}{}:
			default: // told already
			}
		}
	}()
	return changed, nil
}

func addLink() (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = LinkName
	err := netlink.LinkAdd(&netlink.Dummy{LinkAttrs: attrs})
	if errors.Is(err, syscall.EOPNOTSUPP) {
		err = netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs})
	}
	if err != nil && !errors.Is(err, syscall.EEXIST) {
		return nil, fmt.Errorf("adding: %w", err)
	}
	return netlink.LinkByName(LinkName)
}

// ours reports whether a link of our name is of a kind that we make.
func ours(link netlink.Link) bool { return link.Type() == "dummy" || link.Type() == "bridge" }

func isNoLink(err error) bool {
	var none netlink.LinkNotFoundError
	return errors.As(err, &none)
}
