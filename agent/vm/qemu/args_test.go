package qemu

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestArgs(t *testing.T) {
	for name, c := range map[string]Config{
		"kernel": {
			Dir: "/run/vm/1", Name: "default_web, no 2", UUID: "5f0c1a5e-93a8-4d6f-a2f0-3f3c4c1f0a11",
			Accelerator: TCG, MemoryMB: 256, CPUs: 2,
			Kernel: "/guest/vmlinuz", Initrd: "/guest/initrd", Cmdline: "console=ttyS0 panic=-1",
			NICs: []NIC{{MAC: "02:00:00:00:00:01", MTU: 1450, Tap: os.Stdin},
				{MAC: "02:00:00:00:00:02", Tap: os.Stdin}},
			Shares: []Share{{Tag: "shared", Socket: "/run/vm/1/virtiofsd.sock"},
				{Tag: "a,b", Socket: "/run/else,where.sock"}},
			Ports: []Port{{Name: "io.a4s.guest", Socket: "guest.sock"}},
			Slots: 2,
		},
		"disk": {
			Dir: "/run/vm/2", Accelerator: KVM, MemoryMB: 4096, CPUs: 1, Reboot: true,
			Disks: []Disk{
				{ID: "root", Path: "/run/vm/2/root.qcow2", Format: "qcow2", Serial: "root"},
				{ID: strings.Repeat("0123456789abcdef", 4), Path: "/run/vm/2/seed,1.iso",
					Format: "raw", ReadOnly: true},
			},
			Slots: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			args, err := c.Args()
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(args, "\n") + "\n"
			golden := filepath.Join("testdata", runtime.GOARCH, name+".args")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("differs from %s (rewrite it with -update):\n%s", golden, got)
			}
		})
	}
}

func TestArgsRefuses(t *testing.T) {
	good := func() Config {
		return Config{Dir: "/d", Accelerator: TCG, MemoryMB: 128, CPUs: 1, Kernel: "/k",
			Disks: []Disk{{ID: "a", Path: "/a", Format: "raw"}}}
	}
	if _, err := good().Args(); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*Config){
		"Dir":         func(c *Config) { c.Dir = "d" },
		"Accelerator": func(c *Config) { c.Accelerator = "" },
		"MemoryMB":    func(c *Config) { c.MemoryMB = 0 },
		"CPUs":        func(c *Config) { c.CPUs = 0 },
		"Slots":       func(c *Config) { c.Slots = 65 },
		"Kernel":      func(c *Config) { c.Kernel, c.Disks = "", nil },
		"Initrd":      func(c *Config) { c.Kernel, c.Initrd = "", "/i" },
		"Disk.ID":     func(c *Config) { c.Disks[0].ID = "a,file=/etc/shadow" },
		"Disk.Format": func(c *Config) { c.Disks[0].Format = "vmdk" },
		"Disk.Path":   func(c *Config) { c.Disks[0].Path = "a" },
		"Disk.Serial": func(c *Config) { c.Disks[0].Serial = strings.Repeat("x", 21) },
		"NIC.MAC":     func(c *Config) { c.NICs = []NIC{{MAC: "02:00", Tap: os.Stdin}} },
		"NIC.Tap":     func(c *Config) { c.NICs = []NIC{{MAC: "02:00:00:00:00:01"}} },
		"Port":        func(c *Config) { c.Ports = []Port{{Name: "x", Socket: "../x"}} },
	} {
		c := good()
		change(&c)
		if _, err := c.Args(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	c := good()
	c.Disks = append(c.Disks, c.Disks[0])
	if _, err := c.Args(); err == nil {
		t.Error("two disks of one name")
	}
}
