package disks

import (
	"context"
	"errors"

	containerd "github.com/containerd/containerd/v2/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sirupsen/logrus"
)

// Namespace is containerd's namespace for what CRI sees.
const Namespace = "k8s.io"

// DefaultRoom is how much a container can write beyond its image.
const DefaultRoom = 4 << 30

// Options configure a Store.
type Options struct {
	// Root is the directory of base disks.
	Root string
	// Client is of containerd, which has the images.
	Client *containerd.Client
	// Snapshotter is where the images are unpacked.
	Snapshotter string
	// Room is the free space of base disks in bytes, which costs nothing
	// until it is used; 0 means DefaultRoom.
	Room int64
	// Log may be nil.
	Log *logrus.Entry
}

// Store makes disks from images. Its methods may be called concurrently.
type Store struct{ opts Options }

// New returns a Store and removes what an earlier one left unfinished.
func New(o Options) (*Store, error) { return nil, errors.ErrUnsupported }

// Image is an image that disks can be made from.
type Image struct {
	// Chain is the chain id of its layers.
	Chain string
	// Config is what the image says about its process.
	Config ocispec.ImageConfig
	// Bootable says that the image carries a disk to boot, with a partition
	// table and an operating system, instead of a root file system.
	Bootable bool
	// Base and Format are the base disk.
	Base, Format string
	// Size is the base disk's virtual size in bytes.
	Size int64
	// Users are the image's users and groups.
	Users Users
}

// Prepare makes the base disk of an image unless there is one. image is a name
// or an id that containerd knows.
func (s *Store) Prepare(ctx context.Context, image string) (*Image, error) {
	return nil, errors.ErrUnsupported
}

// Overlay makes a disk at path, a qcow2 file, that starts as img's base disk.
// size is its virtual size in bytes; 0 and what is smaller than the base mean
// the base's. While the file exists the base is kept.
func (s *Store) Overlay(ctx context.Context, img *Image, path string, size int64) error {
	return errors.ErrUnsupported
}

// Collect removes base disks whose image is gone and that no overlay uses. It
// returns how many bytes that freed.
func (s *Store) Collect(ctx context.Context) (int64, error) { return 0, errors.ErrUnsupported }

// Usage returns the bytes and files that base disks take.
func (s *Store) Usage() (bytes, files uint64, err error) { return 0, 0, errors.ErrUnsupported }
