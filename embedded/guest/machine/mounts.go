//go:build linux

package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/embedded/guest/protocol"
	"github.com/a4s-io/a4s/embedded/guest/server"
)

// tree is a mount that is not attached anywhere: it is taken from the machine's
// file system and attached in the container's, where links lead nowhere else.
type tree struct {
	fd          int
	isDir       bool
	destination string
	readonly    bool
	attributes  uint64
	// optional says that a destination that cannot be made is no error.
	optional bool
}

// take makes a copy of the mount at path.
func take(path, destination string) (tree, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return tree{}, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	return takeOpened(fd, path, destination)
}

func takeOpened(fd int, path, destination string) (tree, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return tree{}, err
	}
	t := tree{isDir: st.Mode&unix.S_IFMT == unix.S_IFDIR, destination: destination}
	var err error
	t.fd, err = unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return tree{}, fmt.Errorf("copying the mount of %s: %w", path, err)
	}
	return t, nil
}

// takeShared is take for a path below the share, which is not left.
func takeShared(source, destination string) (tree, error) {
	dir, err := unix.Open(protocol.SharedDir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return tree{}, err
	}
	defer unix.Close(dir)
	fd, err := unix.Openat2(dir, source,
		&unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	if err != nil {
		return tree{}, fmt.Errorf("%s in the share: %w", source, err)
	}
	defer unix.Close(fd)
	return takeOpened(fd, source, destination)
}

// attach mounts the tree in the container.
func (t tree) attach() error {
	defer unix.Close(t.fd)
	if err := makeTarget(t.destination, t.isDir); err != nil {
		if t.optional {
			return nil
		}
		return server.Errorf(protocol.CodeInvalid, "mount point %s: %w", t.destination, err)
	}
	if err := unix.MoveMount(t.fd, "", unix.AT_FDCWD, t.destination,
		unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_SYMLINKS); err != nil {
		return server.Errorf(protocol.CodeInvalid, "mounting at %s: %w", t.destination, err)
	}
	set := t.attributes
	if t.readonly {
		set |= unix.MOUNT_ATTR_RDONLY
	}
	if set == 0 {
		return nil
	}
	return setAttributes(t.destination, set)
}

// setAttributes restricts a mount and those below it.
func setAttributes(path string, set uint64) error {
	err := unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: set})
	if err != nil {
		return fmt.Errorf("restricting the mount at %s: %w", path, err)
	}
	return nil
}

// makeTarget makes a mount point if there is none.
func makeTarget(path string, dir bool) error {
	info, err := os.Stat(path)
	if err == nil {
		if info.IsDir() != dir {
			return fmt.Errorf("a directory is to be mounted on a file, or the other way round")
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// A link that leads nowhere is in the way.
	if _, err := os.Lstat(path); err == nil {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	if dir {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// mounts turns the machine's file system into the container's.
func (p plan) mounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	shm, names, own, err := p.collect()
	if err != nil {
		return err
	}
	root := rootOf(p.Container.ID)
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("making %s the root: %w", root, err)
	}
	// The old root lies on the new one now.
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	if err := p.standardMounts(shm); err != nil {
		return err
	}
	for _, t := range names {
		if err := t.attach(); err != nil {
			return err
		}
	}
	for i, mt := range p.Container.Mounts {
		if err := attachMount(mt, own[i]); err != nil {
			return err
		}
	}
	return p.makeDevices()
}

// collect takes all that comes from outside the container's root.
func (p plan) collect() (shm tree, names []tree, own map[int]tree, err error) {
	if shm, err = take(shmDir, "/dev/shm"); err != nil {
		return
	}
	for _, name := range []string{"resolv.conf", "hosts", "hostname"} {
		t, err := take(filepath.Join(podDir, name), "/etc/"+name)
		if err != nil {
			return shm, nil, nil, err
		}
		t.optional = true
		names = append(names, t)
	}
	own = map[int]tree{}
	for i, mt := range p.Container.Mounts {
		var t tree
		switch mt.Type {
		case protocol.MountShared:
			t, err = takeShared(mt.Source, mt.Destination)
		case protocol.MountPod:
			t, err = take(podMemory(mt.Source), mt.Destination)
		case protocol.MountDisk:
			t, err = take(diskOf(p.Container.ID, i), mt.Destination)
		default:
			continue
		}
		if err != nil {
			return shm, nil, nil, fmt.Errorf("mount at %s: %w", mt.Destination, err)
		}
		t.readonly = mt.Readonly
		if t.attributes, err = attributes(mt.Options); err != nil {
			return shm, nil, nil, err
		}
		own[i] = t
	}
	return shm, names, own, nil
}

var mountAttributes = map[string]uint64{
	"noexec": unix.MOUNT_ATTR_NOEXEC, "nosuid": unix.MOUNT_ATTR_NOSUID, "nodev": unix.MOUNT_ATTR_NODEV,
	"noatime": unix.MOUNT_ATTR_NOATIME, "ro": unix.MOUNT_ATTR_RDONLY,
	"rw": 0, "exec": 0, "suid": 0, "dev": 0, "relatime": 0,
}

func attributes(options []string) (uint64, error) {
	var set uint64
	for _, o := range options {
		a, ok := mountAttributes[o]
		if !ok {
			return 0, server.Errorf(protocol.CodeInvalid, "mount option %q", o)
		}
		set |= a
	}
	return set, nil
}

func attachMount(mt protocol.Mount, t tree) error {
	if mt.Type != protocol.MountTmpfs {
		return t.attach()
	}
	if err := makeTarget(mt.Destination, true); err != nil {
		return server.Errorf(protocol.CodeInvalid, "mount point %s: %w", mt.Destination, err)
	}
	if err := unix.Mount("tmpfs", mt.Destination, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV,
		tmpfsOptions(mt)); err != nil {
		return fmt.Errorf("mounting a tmpfs at %s: %w", mt.Destination, err)
	}
	set, err := attributes(mt.Options)
	if err != nil {
		return err
	}
	if mt.Readonly {
		set |= unix.MOUNT_ATTR_RDONLY
	}
	if set == 0 {
		return nil
	}
	return setAttributes(mt.Destination, set)
}

// standardMounts mounts what every container has.
func (p plan) standardMounts(shm tree) error {
	privileged := p.Container.Privileged
	ro := uintptr(unix.MS_RDONLY)
	if privileged {
		ro = 0
	}
	dev := mount{"tmpfs", "/dev", "tmpfs", unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_STRICTATIME,
		"mode=755,size=65536k"}
	if privileged {
		dev = mount{"devtmpfs", "/dev", "devtmpfs", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=755"}
	}
	for _, m := range []mount{
		{"proc", "/proc", "proc", quietly, ""},
		{"sysfs", "/sys", "sysfs", quietly | ro, ""},
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", quietly | ro, ""},
		dev,
		{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5"},
		{"mqueue", "/dev/mqueue", "mqueue", quietly, ""},
	} {
		if m.target == "/sys/fs/cgroup" {
			// It is there, and in a read-only file system.
			if err := unix.Mount(m.source, m.target, m.fsType, m.flags, m.data); err != nil {
				return fmt.Errorf("mounting %s: %w", m.target, err)
			}
			continue
		}
		if err := m.do(); err != nil {
			return err
		}
	}
	return shm.attach()
}
