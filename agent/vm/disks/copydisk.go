package disks

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrForeignDisk says that a qcow2 file names other files: it would show the
// host's to a guest.
var ErrForeignDisk = errors.New("the qcow2 file refers to other files")

// qcow2Header is the beginning of a qcow2 file.
type qcow2Header struct {
	Magic         [4]byte
	Version       uint32
	BackingOffset uint64
	BackingSize   uint32
	ClusterBits   uint32
	Size          uint64
	Crypt         uint32
	L1Size        uint32
	L1Offset      uint64
	RefTable      uint64
	RefClusters   uint32
	Snapshots     uint32
	SnapshotTable uint64
	Incompatible  uint64 // version 3 and later
}

var qcow2Magic = [4]byte{'Q', 'F', 'I', 0xfb}

// externalData is the bit of a file whose data is in another one.
const externalData = 1 << 2

// copyDisk copies the disk that an image carries, and says what it is. The
// header is looked at here and not by QEMU, which would open what it names.
func copyDisk(ctx context.Context, from, to string) (format string, size int64, err error) {
	in, err := os.OpenFile(from, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", 0, err
	}
	defer in.Close()
	stat, err := in.Stat()
	if err != nil {
		return "", 0, err
	}
	format, size = "raw", stat.Size()
	if ext := strings.ToLower(filepath.Ext(from)); ext != ".raw" {
		header, isQcow2, err := readQcow2(in)
		switch {
		case err != nil:
			return "", 0, err
		case isQcow2:
			format, size = "qcow2", int64(header.Size)
		case ext == ".qcow2":
			return "", 0, errors.New("it is no qcow2 file")
		}
	}
	if size <= 0 {
		return "", 0, fmt.Errorf("its size is %d", size)
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", 0, err
	}
	return format, size, errors.Join(copySparse(ctx, out, in), out.Close())
}

func readQcow2(in io.ReaderAt) (h qcow2Header, is bool, err error) {
	err = binary.Read(io.NewSectionReader(in, 0, int64(binary.Size(h))), binary.BigEndian, &h)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || err == nil && h.Magic != qcow2Magic {
		return h, false, nil
	}
	if err != nil {
		return h, false, err
	}
	switch {
	case h.BackingOffset != 0 || h.Version >= 3 && h.Incompatible&externalData != 0:
		return h, true, ErrForeignDisk
	case h.Crypt != 0:
		return h, true, errors.New("the qcow2 file is encrypted")
	case h.Size > 1<<62:
		return h, true, fmt.Errorf("its size is %d", h.Size)
	}
	return h, true, nil
}

// copySparse leaves holes where there are zeros.
func copySparse(ctx context.Context, out *os.File, in io.Reader) error {
	buf, zero := make([]byte, 256<<10), make([]byte, 256<<10)
	var at int64
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		n, err := io.ReadFull(in, buf)
		if n > 0 && !bytes.Equal(buf[:n], zero[:n]) {
			if _, err := out.WriteAt(buf[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return out.Truncate(at)
		}
		if err != nil {
			return err
		}
	}
}
