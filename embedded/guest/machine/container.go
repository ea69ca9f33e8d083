//go:build linux

package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/embedded/guest/protocol"
	"github.com/a4s-io/a4s/embedded/guest/server"
)

func dirOf(id string) string         { return filepath.Join(containerDir, id) }
func rootOf(id string) string        { return filepath.Join(dirOf(id), "root") }
func diskOf(id string, i int) string { return filepath.Join(dirOf(id), "disk"+strconv.Itoa(i)) }
func podMemory(name string) string   { return filepath.Join(memoryDir, name) }
func isName(name string) bool {
	return name != "" && name == filepath.Base(name) && filepath.IsLocal(name)
}
func mode(of, otherwise uint32) string { return strconv.FormatUint(uint64(orElse(of, otherwise)), 8) }

func orElse(v, otherwise uint32) uint32 {
	if v == 0 {
		return otherwise
	}
	return v
}

// Create implements server.Machine.
func (m *Machine) Create(ctx context.Context, c protocol.Container) (err error) {
	m.mu.Lock()
	ready := m.isSetUp
	m.mu.Unlock()
	if !ready {
		return server.Errorf(protocol.CodeState, "the machine was not set up")
	}
	if len(c.Process.Args) == 0 {
		return server.Errorf(protocol.CodeInvalid, "container %s has no command", c.ID)
	}
	if !isName(c.ID) {
		return server.Errorf(protocol.CodeInvalid, "id %q of a container", c.ID)
	}
	for _, mt := range c.Mounts {
		if err := checkMount(mt); err != nil {
			return fmt.Errorf("mount at %s: %w", mt.Destination, err)
		}
	}
	if err := os.Mkdir(dirOf(c.ID), 0o711); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Remove(c.ID))
		}
	}()
	if err := mountDisk(ctx, c.Root, rootOf(c.ID)); err != nil {
		return err
	}
	for i, mt := range c.Mounts {
		if err := m.createMount(ctx, c, i, mt); err != nil {
			return fmt.Errorf("mount at %s: %w", mt.Destination, err)
		}
	}
	for _, d := range c.Devices {
		if _, err := findDisk(ctx, d.Serial); err != nil {
			return fmt.Errorf("device %s: %w", d.Path, err)
		}
	}
	return makeCgroup(c.ID, c.Resources)
}

// checkMount refuses what makes no sense before anything is waited for.
func checkMount(mt protocol.Mount) error {
	if !filepath.IsAbs(mt.Destination) {
		return server.Errorf(protocol.CodeInvalid, "not an absolute path")
	}
	switch mt.Type {
	case protocol.MountDisk:
		if mt.Disk == nil {
			return server.Errorf(protocol.CodeInvalid, "no disk")
		}
	case protocol.MountPod:
		if !isName(mt.Source) {
			return server.Errorf(protocol.CodeInvalid, "name %q", mt.Source)
		}
	case protocol.MountShared:
		if !filepath.IsLocal(mt.Source) {
			return server.Errorf(protocol.CodeInvalid, "path %q in the share", mt.Source)
		}
	case protocol.MountTmpfs:
	default:
		return server.Errorf(protocol.CodeUnsupported, "type %q", mt.Type)
	}
	_, err := attributes(mt.Options)
	return err
}

// createMount mounts what a container's mount needs outside of the container.
func (m *Machine) createMount(ctx context.Context, c protocol.Container, i int, mt protocol.Mount) error {
	switch mt.Type {
	case protocol.MountDisk:
		return mountDisk(ctx, *mt.Disk, diskOf(c.ID, i))
	case protocol.MountPod:
		m.mu.Lock()
		defer m.mu.Unlock()
		dir := podMemory(mt.Source)
		if _, err := os.Stat(dir); err == nil {
			return nil
		}
		tmpfs := mount{"tmpfs", dir, "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, tmpfsOptions(mt)}
		return tmpfs.do()
	case protocol.MountShared:
		_, err := os.Lstat(filepath.Join(protocol.SharedDir, mt.Source))
		if errors.Is(err, os.ErrNotExist) {
			return server.Errorf(protocol.CodeNotFound, "not in the share: %w", err)
		}
		return err
	}
	return nil
}

func tmpfsOptions(mt protocol.Mount) string {
	o := "mode=" + mode(mt.Mode, 0o1777)
	if mt.Size > 0 {
		o += ",size=" + strconv.FormatInt(mt.Size, 10)
	}
	return o
}

// removeTimeout is how long the control group of killed processes may take to
// become empty.
const removeTimeout = 10 * time.Second

// Remove implements server.Machine.
func (m *Machine) Remove(id string) error {
	m.setRoot(id, nil)
	if err := m.Kill(id, int(unix.SIGKILL)); err != nil {
		return err
	}
	for deadline := time.Now().Add(removeTimeout); ; time.Sleep(pollEvery) {
		err := removeCgroup(id)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
	}
	disks, err := filepath.Glob(filepath.Join(dirOf(id), "disk*"))
	if err != nil {
		return err
	}
	for _, dir := range append(disks, rootOf(id)) {
		if err := unmount(dir); err != nil {
			return err
		}
		if err := ignoreMissing(unix.Rmdir(dir)); err != nil {
			return err
		}
	}
	return ignoreMissing(unix.Rmdir(dirOf(id)))
}
