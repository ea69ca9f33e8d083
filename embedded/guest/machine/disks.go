//go:build linux

package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/embedded/guest/protocol"
	"github.com/a4s-io/a4s/embedded/guest/server"
)

// diskTimeout is how long a disk is waited for. It is plugged in about when it
// is asked for, and a machine without hardware virtualization is slow.
const diskTimeout = 30 * time.Second

// findDisk returns the device of the disk with the serial number.
func findDisk(ctx context.Context, serial string) (string, error) {
	if serial == "" {
		return "", server.Errorf(protocol.CodeInvalid, "a disk without a serial number")
	}
	dev, err := waitFor(ctx, diskTimeout, func() (string, error) {
		files, err := filepath.Glob("/sys/block/*/serial")
		if err != nil {
			return "", err
		}
		for _, file := range files {
			if s, err := readTrimmed(file); err == nil && s == serial {
				dev := filepath.Join("/dev", filepath.Base(filepath.Dir(file)))
				_, err := os.Stat(dev)
				return dev, err
			}
		}
		return "", os.ErrNotExist
	})
	if errors.Is(err, os.ErrNotExist) {
		return "", server.Errorf(protocol.CodeNotFound, "disk %q: %w", serial, err)
	}
	return dev, err
}

// The file systems that a disk may have: those of the embedded guest.
var diskTypes = []string{"ext2", "ext3", "ext4"}

// mountDisk mounts a disk at target.
func mountDisk(ctx context.Context, d protocol.Disk, target string) error {
	fsType := d.FSType
	if fsType == "" {
		fsType = "ext4"
	}
	if !slices.Contains(diskTypes, fsType) {
		return server.Errorf(protocol.CodeUnsupported, "file system type %q", fsType)
	}
	flags, data, err := mountOptions(d.Options)
	if err != nil {
		return err
	}
	if d.Readonly {
		flags |= unix.MS_RDONLY
	}
	dev, err := findDisk(ctx, d.Serial)
	if err != nil {
		return err
	}
	m := mount{dev, target, fsType, flags, data}
	if err := whenOpen(ctx, m.do); err != nil {
		return fmt.Errorf("disk %s: %w", d.Serial, err)
	}
	return nil
}

// openTimeout is how long a disk that is there may take until it can be opened.
const openTimeout = 10 * time.Second

// whenOpen calls f again while the disk cannot be opened: the kernel shows a
// disk that is being plugged in shortly before that.
func whenOpen(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	for {
		err := f()
		if !errors.Is(err, unix.ENXIO) || pause(ctx, pollEvery) != nil {
			return err
		}
	}
}

var mountFlags = map[string]uintptr{
	"ro": unix.MS_RDONLY, "noexec": unix.MS_NOEXEC, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV,
	"noatime": unix.MS_NOATIME, "relatime": unix.MS_RELATIME, "nodiratime": unix.MS_NODIRATIME,
	"sync": unix.MS_SYNCHRONOUS,
	"rw":   0, "exec": 0, "suid": 0, "dev": 0, "defaults": 0,
}

// mountOptions splits options into flags and what the file system itself reads.
func mountOptions(options []string) (uintptr, string, error) {
	var flags uintptr
	var data []string
	for _, o := range options {
		if strings.Contains(o, ",") {
			return 0, "", server.Errorf(protocol.CodeInvalid, "mount option %q", o)
		}
		if f, ok := mountFlags[o]; ok {
			flags |= f
		} else {
			data = append(data, o)
		}
	}
	return flags, strings.Join(data, ","), nil
}

// unmountTimeout is how long a mount may be in use after its processes ended.
const unmountTimeout = 5 * time.Second

// unmount unmounts what is mounted at target, and writes it to the disk. What
// is not mounted is no error.
func unmount(target string) error {
	deadline := time.Now().Add(unmountTimeout)
	for {
		err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
		switch {
		case err == nil:
			continue // there may be one below
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
			return nil
		case errors.Is(err, unix.EBUSY) && time.Now().Before(deadline):
			time.Sleep(pollEvery)
		default:
			return fmt.Errorf("unmounting %s: %w", target, err)
		}
	}
}
