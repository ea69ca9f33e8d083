package qemu

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// ErrNoSlot says that a machine has all the disks that it can have.
var ErrNoSlot = errors.New("the machine has no slot for another disk")

// unplugTimeout is how long a guest may take to let go of a disk, if the
// context allows that.
const unplugTimeout = 15 * time.Second

// askAgain is when a guest that did not react is asked again: one that boots
// does not hear.
const askAgain = time.Second

// pciDevice is the part of QEMU's answer that says what is plugged in where.
type pciDevice struct {
	ID     string `json:"qdev_id"`
	Bridge *struct {
		Devices []pciDevice `json:"devices"`
	} `json:"pci_bridge"`
}

// slots returns what is in each slot, empty for nothing.
func (m *Machine) slots(ctx context.Context) (map[string]string, error) {
	var buses []struct {
		Devices []pciDevice `json:"devices"`
	}
	if err := m.Execute(ctx, "query-pci", nil, &buses); err != nil {
		return nil, err
	}
	slots := map[string]string{}
	for _, b := range buses {
		for _, d := range b.Devices {
			if !strings.HasPrefix(d.ID, "slot") || d.Bridge == nil {
				continue
			}
			slots[d.ID] = ""
			for _, in := range d.Bridge.Devices {
				slots[d.ID] = in.ID
			}
		}
	}
	return slots, nil
}

// Plug adds a disk to the running machine. A disk of that name that is plugged
// in already is left as it is.
func (m *Machine) Plug(ctx context.Context, d Disk) error {
	if err := d.validate(); err != nil {
		return err
	}
	m.plugging.Lock()
	defer m.plugging.Unlock()
	slots, err := m.slots(ctx)
	if err != nil {
		return fmt.Errorf("adding disk %s: %w", d.ID, err)
	}
	free := ""
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(slots))) {
		switch slots[name] {
		case deviceName(d.ID):
			return nil
		case "":
			free = name
		}
	}
	if free == "" {
		return fmt.Errorf("adding disk %s: %w (%d are in use)", d.ID, ErrNoSlot, len(slots))
	}
	// One that was left when an earlier attempt was cut short.
	if err := m.removeNode(ctx, d.ID); err != nil {
		return fmt.Errorf("adding disk %s: %w", d.ID, err)
	}
	if err := m.Execute(ctx, "blockdev-add", d.node(), nil); err != nil {
		return fmt.Errorf("adding disk %s: %w", d.ID, err)
	}
	device := d.device()
	device["bus"] = free
	if err := m.Execute(ctx, "device_add", device, nil); err != nil {
		return errors.Join(fmt.Errorf("adding disk %s: %w", d.ID, err), m.removeNode(ctx, d.ID))
	}
	return nil
}

// Unplug takes a disk away, which the guest has to agree to. A disk that the
// machine does not have is no error.
func (m *Machine) Unplug(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, unplugTimeout)
	defer cancel()
	var asked time.Time
	for {
		changed := m.anyEvent() // before looking, so none is missed
		slots, err := m.slots(ctx)
		if err != nil {
			return fmt.Errorf("removing disk %s: %w", id, err)
		}
		if !slices.Contains(slices.Collect(maps.Values(slots)), deviceName(id)) {
			break
		}
		if time.Since(asked) >= askAgain {
			asked = time.Now()
			err := m.Execute(ctx, "device_del", map[string]string{"id": deviceName(id)}, nil)
			var refused *Error // that it was asked before, or just went
			if err != nil && !errors.As(err, &refused) {
				return fmt.Errorf("removing disk %s: %w", id, err)
			}
		}
		timer := time.NewTimer(askAgain)
		select {
		case <-changed:
		case <-timer.C:
		case <-m.Done():
			return nil
		case <-ctx.Done():
			return fmt.Errorf("removing disk %s: the guest does not let go of it: %w", id, context.Cause(ctx))
		}
		timer.Stop()
	}
	m.plugging.Lock()
	defer m.plugging.Unlock()
	if err := m.removeNode(ctx, id); err != nil {
		return fmt.Errorf("removing disk %s: %w", id, err)
	}
	return nil
}

// removeNode closes the file of a disk that no device has. QEMU lets go of the
// device a moment after it said that it went.
func (m *Machine) removeNode(ctx context.Context, id string) error {
	for {
		err := m.Execute(ctx, "blockdev-del", map[string]string{"node-name": nodeName(id)}, nil)
		var refused *Error
		if err == nil || !errors.As(err, &refused) {
			return err
		}
		there, lookErr := m.hasNode(ctx, nodeName(id))
		if lookErr != nil || !there {
			return lookErr
		}
		timer := time.NewTimer(pollEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

func (m *Machine) hasNode(ctx context.Context, name string) (bool, error) {
	var nodes []struct {
		Name string `json:"node-name"`
	}
	if err := m.Execute(ctx, "query-named-block-nodes", map[string]bool{"flat": true}, &nodes); err != nil {
		return false, err
	}
	for _, n := range nodes {
		if n.Name == name {
			return true, nil
		}
	}
	return false, nil
}
