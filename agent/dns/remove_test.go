package dns

import (
	"context"
	"errors"
	"fmt"

	"github.com/coreos/go-iptables/iptables"
	"github.com/vishvananda/netlink"
	"sigs.k8s.io/knftables"
)

// removeAll removes the link and the rules of the server, whatever address they
// were for, as killall does. It succeeds where there is nothing to remove.
func removeAll(ctx context.Context) error {
	return errors.Join(removeLink(), removeNoTrack(ctx))
}

func removeLink() error {
	link, err := netlink.LinkByName(LinkName)
	if isNoLink(err) {
		return nil
	}
	if err == nil && ours(link) {
		err = netlink.LinkDel(link)
	}
	if err != nil {
		return fmt.Errorf("removing link %s: %w", LinkName, err)
	}
	return nil
}

// removeNoTrack removes the rules of both kinds and families.
func removeNoTrack(ctx context.Context) error {
	var errs []error
	for _, family := range []knftables.Family{knftables.IPv4Family, knftables.IPv6Family} {
		nft, err := knftables.New(family, tableName)
		if err != nil {
			continue // not usable, so nothing was made with it
		}
		tx := nft.NewTransaction()
		tx.Add(&knftables.Table{}) // so that deleting works where there is none
		tx.Delete(&knftables.Table{})
		if err := nft.Run(ctx, tx); err != nil {
			errs = append(errs, fmt.Errorf("removing nftables table %s %s: %w", family, tableName, err))
		}
	}
	for _, proto := range []iptables.Protocol{iptables.ProtocolIPv4, iptables.ProtocolIPv6} {
		ipt, err := newIPTables(proto)
		if err != nil {
			continue
		}
		if exists, err := ipt.ChainExists(rawTable, chainName); err != nil || !exists {
			continue // a kernel without the table is an error, and has no chain
		}
		for _, from := range iptablesHooks() {
			errs = append(errs, ipt.DeleteIfExists(rawTable, from, "-j", chainName))
		}
		errs = append(errs, ipt.ClearAndDeleteChain(rawTable, chainName))
	}
	return errors.Join(errs...)
}
