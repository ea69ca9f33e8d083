//go:build linux

package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/embedded/guest/protocol"
	"github.com/a4s-io/a4s/embedded/guest/server"
)

// makeDevices fills /dev.
func (p plan) makeDevices() error {
	if !p.Container.Privileged {
		for name, minor := range map[string]uint32{"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9} {
			if err := makeNode("/dev/"+name, unix.S_IFCHR|0o666, 1, minor); err != nil {
				return err
			}
		}
		if err := makeNode("/dev/tty", unix.S_IFCHR|0o666, 5, 0); err != nil {
			return err
		}
		if err := os.Symlink("pts/ptmx", "/dev/ptmx"); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, "/dev/"+name); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	for _, d := range p.Container.Devices {
		if err := makeDisk(d); err != nil {
			return fmt.Errorf("device %s: %w", d.Path, err)
		}
	}
	return nil
}

func makeNode(path string, mode, major, minor uint32) error {
	if err := unix.Mknod(path, mode, int(unix.Mkdev(major, minor))); err != nil {
		return &fs.PathError{Op: "mknod", Path: path, Err: err}
	}
	// Whatever the mask is.
	return os.Chmod(path, os.FileMode(mode&0o777))
}

// makeDisk makes the node of a disk, which was there when the container was
// created.
func makeDisk(d protocol.Device) error {
	dev, err := diskNumber(d.Serial)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(d.Path) {
		return server.Errorf(protocol.CodeInvalid, "not an absolute path")
	}
	if err := os.MkdirAll(filepath.Dir(d.Path), 0o755); err != nil {
		return err
	}
	mode := uint32(unix.S_IFBLK | 0o660)
	if d.Readonly {
		mode = unix.S_IFBLK | 0o440
	}
	if err := unix.Mknod(d.Path, mode, int(dev)); err != nil {
		return err
	}
	return os.Chmod(d.Path, os.FileMode(mode&0o777))
}

// diskNumber returns the device number of a disk, from the container's /sys.
func diskNumber(serial string) (uint64, error) {
	path, err := findDisk(context.Background(), serial)
	if err != nil {
		return 0, err
	}
	text, err := readTrimmed(filepath.Join("/sys/block", filepath.Base(path), "dev"))
	if err != nil {
		return 0, err
	}
	var major, minor uint32
	if _, err := fmt.Sscanf(text, "%d:%d", &major, &minor); err != nil {
		return 0, err
	}
	return unix.Mkdev(major, minor), nil
}

// bindConsole makes the terminal the container's console.
func bindConsole(name string) error {
	f, err := os.OpenFile("/dev/console", os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_ = f.Close()
	return unix.Mount(name, "/dev/console", "", unix.MS_BIND, "")
}

// protect hides and write-protects what the container is not to see or change.
func (p plan) protect() error {
	for _, path := range p.Container.MaskedPaths {
		if err := mask(path); err != nil {
			return fmt.Errorf("masking %s: %w", path, err)
		}
	}
	for _, path := range p.Container.ReadonlyPaths {
		err := unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, "")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = setAttributes(path, unix.MOUNT_ATTR_RDONLY)
		}
		if err != nil {
			return fmt.Errorf("protecting %s: %w", path, err)
		}
	}
	if !p.Container.ReadonlyRoot {
		return nil
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("making the root read-only: %w", err)
	}
	return nil
}

// mask puts something empty over a path.
func mask(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		return unix.Mount("tmpfs", path, "tmpfs", quietly|unix.MS_RDONLY, "size=0")
	}
	return unix.Mount(os.DevNull, path, "", unix.MS_BIND, "")
}
