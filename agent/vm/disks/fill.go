package disks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	cfs "github.com/containerd/continuity/fs"
	"golang.org/x/sys/unix"
)

// diskDir is where an image has the disk that it carries.
const diskDir = "disk"

// diskSuffixes are how the names of such disks end.
var diskSuffixes = []string{".qcow2", ".img", ".raw"}

// ErrSeveralDisks says that an image carries more than one disk.
var ErrSeveralDisks = errors.New("the image has more than one disk in /disk")

// fill makes the base disk at out of what is in root.
func (s *Store) fill(ctx context.Context, root, out string) (i info, err error) {
	disk, err := carriedDisk(root)
	if err != nil {
		return i, err
	}
	if disk != "" {
		i.Bootable = true
		i.Format, i.Size, err = copyDisk(ctx, disk, out)
		if err != nil {
			return i, fmt.Errorf("/%s/%s: %w", diskDir, filepath.Base(disk), err)
		}
		return i, nil
	}
	if i.Users, err = readUsers(root); err != nil {
		return i, err
	}
	i.Format = "raw"
	i.Size, err = s.makeFileSystem(ctx, root, out)
	return i, err
}

// carriedDisk returns the path of the disk that the image in root carries, or
// nothing.
func carriedDisk(root string) (string, error) {
	dir, err := cfs.RootPath(root, diskDir)
	if err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var found []string
	for _, e := range entries {
		// Not a link: that could lead anywhere.
		if e.Type().IsRegular() && slices.Contains(diskSuffixes, strings.ToLower(filepath.Ext(e.Name()))) {
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%w: %s, %s", ErrSeveralDisks, filepath.Base(found[0]), filepath.Base(found[1]))
}

// maxUsersFile is how much of /etc/passwd or /etc/group is read.
const maxUsersFile = 1 << 20

func readUsers(root string) (u Users, err error) {
	if u.Passwd, err = readWithin(root, "etc/passwd"); err != nil {
		return u, err
	}
	u.Group, err = readWithin(root, "etc/group")
	return u, err
}

// readWithin reads a regular file, following links as if root were "/".
func readWithin(root, name string) ([]byte, error) {
	path, err := cfs.RootPath(root, name)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if i, err := f.Stat(); err != nil || !i.Mode().IsRegular() {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, maxUsersFile))
}

const (
	block     = 4096
	inodeSize = 256
	// slack is for what a file system needs whatever is in it.
	slack = 64 << 20
)

// makeFileSystem makes an ext4 file system with the content of root and room
// for more. What is not used takes no space on the host.
func (s *Store) makeFileSystem(ctx context.Context, root, out string) (int64, error) {
	bytes, files, err := measure(ctx, root)
	if err != nil {
		return 0, err
	}
	size := bytes + bytes/16 + s.opts.Room + slack
	// As many more files as an ext4 file system of that size would have.
	inodes := files + files/8 + s.opts.Room/(16<<10) + 1024
	size += inodes * inodeSize
	size = (size + 1<<20 - 1) &^ (1<<20 - 1)
	make := func(extended string) error {
		f, err := os.OpenFile(out, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
			return err
		}
		return run(ctx, "mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", "-b", strconv.Itoa(block),
			"-I", strconv.Itoa(inodeSize),
			"-N", strconv.FormatInt(inodes, 10), "-E", extended+",root_owner=0:0", "-d", root, out)
	}
	// The file is all zeros, so the guest need not write them again. Versions
	// before 1.47 cannot be told.
	err = make("assume_storage_prezeroed=1")
	if err != nil && ctx.Err() == nil {
		if lazy := make("lazy_itable_init=1,lazy_journal_init=1"); lazy != nil {
			return 0, errors.Join(err, lazy)
		}
		err = nil
	}
	return size, err
}

// measure returns how many bytes of blocks and how many files are in a tree.
func measure(ctx context.Context, root string) (bytes, files int64, err error) {
	linked := map[uint64]bool{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		i, err := d.Info()
		if err != nil {
			return err
		}
		st, ok := i.Sys().(*syscall.Stat_t)
		if ok && st.Nlink > 1 && !d.IsDir() {
			if linked[st.Ino] {
				return nil
			}
			linked[st.Ino] = true
		}
		files++
		bytes += (i.Size() + block - 1) &^ (block - 1)
		return nil
	})
	return bytes, files, err
}
