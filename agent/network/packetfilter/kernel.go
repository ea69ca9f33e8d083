package packetfilter

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/knftables"

	"github.com/a4s-io/a4s/agent/network/netfilter"
	"github.com/a4s-io/a4s/internal/space"
)

// half is one half of the table in the kernel. Each half is written by
// transactions of its own, so that the other half stays when one cannot be
// written or is not known yet.
type half struct {
	tenants bool   // whose half it is
	base    string // a chain that it always has
	old     string // the table that it was in earlier versions

	current *table // in the kernel; nil if that is not known
	removed bool   // the kernel has nothing of it
	tidy    bool   // the old table is gone
}

func (p *half) forget() { p.current, p.removed, p.tidy = nil, false, false }

// has reports whether an object of the table belongs to the part.
func (p *half) has(name string) bool { return strings.HasPrefix(name, prefix) == p.tenants }

// write makes next what the kernel has of the part.
func (f *filter) write(ctx context.Context, p *half, next *table) error {
	if p.current != nil && p.tidy {
		tx := f.nft.NewTransaction()
		next.change(tx, p.current)
		if tx.NumOperations() == 0 {
			return nil
		}
		err := f.nft.Run(ctx, tx)
		if err == nil {
			p.current = next
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		f.Log.WithError(err).Debug("the table is not what it was; writing all of it")
	}
	p.forget()
	tx, err := f.emptied(ctx, p)
	if err != nil {
		return err
	}
	next.change(tx, newTable())
	if err := f.nft.Run(ctx, tx); err != nil {
		return err
	}
	p.current = next
	return f.clean(ctx, p)
}

// remove leaves nothing of the part in the kernel.
func (f *filter) remove(ctx context.Context, p *half) error {
	if p.removed && p.tidy {
		return nil
	}
	p.forget()
	tx, err := f.emptied(ctx, p)
	if err != nil {
		return err
	}
	if err := f.nft.Run(ctx, tx); err != nil {
		return err
	}
	p.removed = true
	return f.clean(ctx, p)
}

// emptied returns a transaction that makes the table, and takes out whatever
// the kernel has of the part.
func (f *filter) emptied(ctx context.Context, p *half) (*knftables.Transaction, error) {
	chains, err := f.list(ctx, p, "chain")
	if err != nil {
		return nil, err
	}
	maps, err := f.list(ctx, p, "map")
	if err != nil {
		return nil, err
	}
	sets, err := f.list(ctx, p, "set")
	if err != nil {
		return nil, err
	}
	tx := f.nft.NewTransaction()
	tx.Add(&knftables.Table{})
	for _, name := range chains { // lets go of what it refers to
		tx.Flush(&knftables.Chain{Name: name})
	}
	for _, name := range maps {
		tx.Flush(&knftables.Map{Name: name})
	}
	for _, name := range chains {
		tx.Delete(&knftables.Chain{Name: name})
	}
	for _, name := range maps {
		tx.Delete(&knftables.Map{Name: name})
	}
	for _, name := range sets {
		tx.Delete(&knftables.Set{Name: name})
	}
	return tx, nil
}

// list returns the names of the objects of the part that the kernel has.
func (f *filter) list(ctx context.Context, p *half, kind string) ([]string, error) {
	names, err := f.nft.List(ctx, kind)
	if err != nil && !knftables.IsNotFound(err) {
		return nil, fmt.Errorf("listing the %ss of the table %s: %w", kind, TableName, err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return !p.has(name) }), nil
}

// clean removes the old table, whose rules the part has now.
func (f *filter) clean(ctx context.Context, p *half) error {
	if p.tidy {
		return nil
	}
	if err := f.drop(ctx, p.old); err != nil {
		return err
	}
	p.tidy = true
	return nil
}

// there reports whether the kernel has the part.
func (f *filter) there(ctx context.Context, p *half) (bool, error) {
	chains, err := f.list(ctx, p, "chain")
	return slices.Contains(chains, p.base), err
}

// left reports whether the kernel has the part of a run before, which may have
// been one of an earlier version.
func (f *filter) left(ctx context.Context, p *half) (bool, error) {
	if f.unusable != nil {
		return false, nil
	}
	if there, err := f.there(ctx, p); there || err != nil {
		return there, err
	}
	tables, err := f.old(ctx)
	return slices.Contains(tables, netfilter.Table{Family: "inet", Name: p.old}), err
}

// checkBridge warns once where the kernel does not show us what crosses the
// bridge.
func (f *filter) checkBridge(s tenantState) {
	if f.warned || f.Bridge == "" {
		return
	}
	for _, p := range s.local {
		if p.Tenant == space.System {
			continue
		}
		err := f.bridge([]string{bridgeSysctl4})
		if err == nil {
			return
		}
		f.warned = true
		f.Log.WithError(err).Error("pods of different tenants are NOT kept apart within this node:" +
			" the sysctl net.bridge.bridge-nf-call-iptables is not 1; load the kernel module br_netfilter")
		return
	}
}

// The sysctls that make bridged packets pass the packet filter.
const (
	bridgeSysctl4 = "bridge-nf-call-iptables"
	bridgeSysctl6 = "bridge-nf-call-ip6tables"
)

// bridgeSysctls are those that policies need.
func bridgeSysctls(clusters []netip.Prefix) (sysctls []string) {
	for _, c := range clusters {
		name := bridgeSysctl4
		if c.Addr().Is6() {
			name = bridgeSysctl6
		}
		if !slices.Contains(sysctls, name) {
			sysctls = append(sysctls, name)
		}
	}
	return sysctls
}

// bridgeShown reports whether bridged packets pass the packet filter.
func bridgeShown(sysctls []string) error {
	var errs []error
	for _, name := range sysctls {
		value, err := os.ReadFile("/proc/sys/net/bridge/" + name)
		switch {
		case err != nil:
			errs = append(errs, err)
		case strings.TrimSpace(string(value)) != "1":
			errs = append(errs, fmt.Errorf("the sysctl net.bridge.%s is %s", name, strings.TrimSpace(string(value))))
		}
	}
	return errors.Join(errs...)
}
