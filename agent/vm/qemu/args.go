package qemu

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// maxSlots is what fits on the root bus beside everything else: two devices
// of eight functions each.
const maxSlots = 64

// firstSlot is the device number of the first root ports. Those below it are
// of what a machine has from the start.
const firstSlot = 0x10

// maxSerial is how long a virtio disk's serial number may be.
const maxSerial = 20

var validID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*$`)

// invalid is a mistake of the caller.
func invalid(field string, value any, want string) error {
	return fmt.Errorf("machine: %s is %q: want %s", field, fmt.Sprint(value), want)
}

func (c Config) validate() error {
	switch {
	case !filepath.IsAbs(c.Dir):
		return invalid("Dir", c.Dir, "an absolute path")
	case c.Accelerator != KVM && c.Accelerator != TCG:
		return invalid("Accelerator", c.Accelerator, "kvm or tcg")
	case c.MemoryMB < 32:
		return invalid("MemoryMB", c.MemoryMB, "at least 32")
	case c.CPUs < 1 || c.CPUs > 255:
		return invalid("CPUs", c.CPUs, "1 to 255")
	case c.Slots < 0 || c.Slots > maxSlots:
		return invalid("Slots", c.Slots, "0 to 64")
	case c.Kernel == "" && len(c.Disks) == 0:
		return invalid("Kernel", "", "a kernel, or a disk to boot")
	case c.Kernel == "" && (c.Initrd != "" || c.Cmdline != ""):
		return invalid("Initrd", c.Initrd, "none without a kernel")
	}
	seen := map[string]bool{}
	for _, d := range c.Disks {
		if err := d.validate(); err != nil {
			return err
		}
		if seen[d.ID] {
			return invalid("Disk.ID", d.ID, "one that no other disk has")
		}
		seen[d.ID] = true
	}
	for _, n := range c.NICs {
		if _, err := net.ParseMAC(n.MAC); err != nil {
			return invalid("NIC.MAC", n.MAC, "a hardware address")
		}
		if n.Tap == nil {
			return invalid("NIC.Tap", nil, "an open tap device")
		}
	}
	for _, p := range c.Ports {
		if p.Name == "" || p.Socket == "" || p.Socket != filepath.Base(p.Socket) {
			return invalid("Port", p.Name+" "+p.Socket, "a name and the name of a socket in the machine's directory")
		}
	}
	return nil
}

func (d Disk) validate() error {
	switch {
	case !validID.MatchString(d.ID):
		return invalid("Disk.ID", d.ID, `letters, digits and "-"`)
	case d.Format != "qcow2" && d.Format != "raw":
		return invalid("Disk.Format", d.Format, "qcow2 or raw")
	case !filepath.IsAbs(d.Path):
		return invalid("Disk.Path", d.Path, "an absolute path")
	case len(d.Serial) > maxSerial || strings.ContainsFunc(d.Serial, func(r rune) bool { return r <= ' ' || r > '~' }):
		return invalid("Disk.Serial", d.Serial, "at most 20 printable characters")
	}
	return nil
}

// Args returns QEMU's command line. Sockets are named relative to the
// machine's directory, in which QEMU must be started: a socket's path may have
// 107 bytes only.
func (c Config) Args() ([]string, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	a := &arguments{}
	a.add("-nodefaults", "-no-user-config")
	a.add("-display", "none")
	a.add("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny")
	if c.Name != "" {
		a.add("-name", escape(c.Name))
	}
	if c.UUID != "" {
		a.add("-uuid", c.UUID)
	}
	// It is started by hand when everything is in place.
	a.add("-S")
	if !c.Reboot {
		a.add("-no-reboot")
	}
	a.add("-machine", board+",memory-backend=memory")
	switch c.Accelerator {
	case KVM:
		a.add("-accel", "kvm", "-cpu", "host")
	case TCG:
		a.add("-accel", "tcg,thread=multi,tb-size="+strconv.Itoa(TranslationCache(c.MemoryMB)),
			"-cpu", emulatedCPU)
	}
	a.add("-smp", strconv.Itoa(c.CPUs))
	memory := strconv.Itoa(c.MemoryMB) + "M"
	a.add("-m", memory)
	// virtiofsd works in the guest's memory, so that has to be a file.
	a.add("-object", "memory-backend-memfd,id=memory,share=on,size="+memory)
	a.add("-chardev", "socket,id=qmp,server=on,wait=off,path="+qmpSocket, "-mon", "chardev=qmp,mode=control")
	a.add("-chardev", "file,id=console,append=on,path="+consoleFile, "-serial", "chardev:console")
	a.add("-object", "rng-builtin,id=rng", "-device", "virtio-rng-pci,rng=rng")
	if c.Kernel != "" {
		a.add("-kernel", c.Kernel)
		if c.Initrd != "" {
			a.add("-initrd", c.Initrd)
		}
		if c.Cmdline != "" {
			a.add("-append", c.Cmdline)
		}
	}
	if c.Kernel == "" && firmware != "" {
		a.add("-bios", firmware)
	}
	for i, d := range c.Disks {
		a.json("-blockdev", d.node())
		device := d.device()
		if c.Kernel == "" {
			device["bootindex"] = i + 1
		}
		a.json("-device", device)
	}
	for i, n := range c.NICs {
		a.add("-netdev", fmt.Sprintf("tap,id=net%d,fd=%d", i, firstFile+i))
		// Without a ROM the firmware does not look for something to boot there.
		device := fmt.Sprintf("virtio-net-pci,id=nic%d,netdev=net%d,mac=%s,romfile=", i, i, n.MAC)
		if n.MTU > 0 {
			device += ",host_mtu=" + strconv.Itoa(n.MTU)
		}
		a.add("-device", device)
	}
	for i, s := range c.Shares {
		path := s.Socket
		if rel, err := filepath.Rel(c.Dir, path); err == nil && filepath.IsLocal(rel) {
			path = rel
		}
		a.add("-chardev", fmt.Sprintf("socket,id=share%d,path=%s", i, escape(path)))
		a.add("-device", fmt.Sprintf("vhost-user-fs-pci,chardev=share%d,queue-size=1024,tag=%s", i, escape(s.Tag)))
	}
	if len(c.Ports) > 0 {
		a.add("-device", "virtio-serial-pci,id=serial")
	}
	for i, p := range c.Ports {
		a.add("-chardev", fmt.Sprintf("socket,id=port%d,server=on,wait=off,path=%s", i, escape(p.Socket)))
		a.add("-device", fmt.Sprintf("virtserialport,bus=serial.0,chardev=port%d,name=%s", i, escape(p.Name)))
	}
	for i := range c.slots() {
		// Disks need no I/O ports, of which there are too few for all.
		a.add("-device",
			fmt.Sprintf("pcie-root-port,id=%s,bus=pcie.0,chassis=%d,addr=0x%x.%d,multifunction=on,io-reserve=0",
				slotName(i), i+1, firstSlot+i/8, i%8))
	}
	return a.list, a.err
}

func (c Config) slots() int {
	if c.Slots == 0 {
		return DefaultSlots
	}
	return c.Slots
}

// firstFile is the first descriptor that a started process gets.
const firstFile = 3

func slotName(i int) string { return "slot" + strconv.Itoa(i) }

// TranslationCache is the size in MB of the buffer for translated code. QEMU's
// own choice is a gigabyte, most of which a small guest comes to use.
func TranslationCache(memoryMB int) int { return min(256, max(64, memoryMB/8)) }

// node describes the disk to QEMU's block layer. The format is never guessed:
// a guest could write the header of another one.
func (d Disk) node() map[string]any {
	n := map[string]any{
		"node-name": nodeName(d.ID),
		"driver":    d.Format,
		"file":      map[string]any{"driver": "file", "filename": d.Path},
		"discard":   "unmap",
	}
	if d.ReadOnly {
		n["read-only"] = true
	}
	return n
}

func (d Disk) device() map[string]any {
	v := map[string]any{"driver": "virtio-blk-pci", "id": deviceName(d.ID), "drive": nodeName(d.ID)}
	if d.Serial != "" {
		v["serial"] = d.Serial
	}
	return v
}

// maxNode is how long the name of a block node may be.
const maxNode = 31

func nodeName(id string) string {
	if name := "n-" + id; len(name) <= maxNode {
		return name
	}
	sum := sha256.Sum256([]byte(id))
	return "h-" + hex.EncodeToString(sum[:])[:maxNode-2]
}

func deviceName(id string) string { return "d-" + id }

type arguments struct {
	list []string
	err  error
}

func (a *arguments) add(args ...string) { a.list = append(a.list, args...) }

func (a *arguments) json(option string, value any) {
	data, err := json.Marshal(value)
	if err != nil && a.err == nil {
		a.err = err
	}
	a.add(option, string(data))
}

// escape makes a value of an option safe: a comma ends it, two are one.
func escape(s string) string { return strings.ReplaceAll(s, ",", ",,") }
