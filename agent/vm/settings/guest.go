package settings

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/a4s-io/a4s/agent/vm/qemu"
	"github.com/a4s-io/a4s/embedded/guest/initrd"
	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/problem"
)

// Preflight says what the machine lacks to run virtual machines, as a
// *problem.Precondition.
func Preflight(o Service) error {
	o = o.WithDefaults()
	for _, program := range []struct{ name, what, pkg string }{
		{o.QEMU, "QEMU", qemu.DebianPackage},
		{"mke2fs", "mke2fs", "e2fsprogs"},
		{o.Virtiofsd, "virtiofsd", "qemu-system-common (Debian 12) or virtiofsd (from Debian 13 on)"},
	} {
		if _, err := exec.LookPath(program.name); err != nil {
			return &problem.Precondition{What: program.what + " for pods that run as virtual machines", Err: err,
				Fix: "install the package " + program.pkg}
		}
	}
	for _, file := range []struct{ path, flag string }{{o.Kernel, "--vm-kernel"}, {o.Initrd, "--vm-initrd"}} {
		if file.path == "" {
			return &problem.Precondition{
				What: "the guest of pods that run as virtual machines",
				Err:  errors.New("none is installed"),
				Fix: "build one with `make guest` and put it into /usr/local/lib/a4s/guest, or name one with " +
					file.flag,
			}
		}
		if st, err := os.Stat(file.path); err != nil || !st.Mode().IsRegular() {
			if err == nil {
				err = errors.New("it is not a file")
			}
			return &problem.Precondition{What: "the guest of pods that run as virtual machines: " + file.path,
				Err: err, Fix: "name another one with " + file.flag}
		}
	}
	return nil
}

// Assemble puts the init program into the initrd, which belongs to the kernel
// and not to a4s, and returns the path of the result. Machines read it when they
// start. The path is that of the initrd if nothing is to be put in, or if
// Preflight refuses, which the status of the runtime then says.
func Assemble(o Service) (string, error) {
	if o.Init == "" || Preflight(o) != nil {
		return o.Initrd, nil
	}
	program, err := os.ReadFile(o.Init)
	if err != nil {
		return "", fmt.Errorf("init program of the guest: %w", err)
	}
	modules, err := os.Open(o.Initrd)
	if err != nil {
		return "", fmt.Errorf("initial RAM disk of the guest: %w", err)
	}
	defer modules.Close()
	var image bytes.Buffer
	if err := initrd.Assemble(&image, modules, program); err != nil {
		return "", fmt.Errorf("initial RAM disk of the guest: %w", err)
	}
	path := filepath.Join(o.State, "initrd.img")
	return path, atomicfile.Write(path, image.Bytes(), 0o600)
}
