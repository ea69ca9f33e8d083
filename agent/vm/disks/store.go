package disks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/internal/atomicfile"
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
type Store struct {
	opts   Options
	source source
	now    func() time.Time

	mu   sync.Mutex
	busy map[string]chan struct{} // by chain, holds a token while somebody works on it
}

// Names below Options.Root and in the directory of a base disk.
const (
	basesDir = "bases"
	tempDir  = "tmp"

	baseFile = "base"
	infoFile = "info.json"
	refsDir  = "refs"
)

// New returns a Store and removes what an earlier one left unfinished.
func New(o Options) (*Store, error) { return newStore(o, imageSource{o.Client, o.Snapshotter}) }

func newStore(o Options, from source) (*Store, error) {
	if o.Room == 0 {
		o.Room = DefaultRoom
	}
	if o.Log == nil {
		o.Log = logrus.WithField("component", "vm-disks")
	}
	s := &Store{opts: o, source: from, now: time.Now, busy: map[string]chan struct{}{}}
	if err := os.MkdirAll(filepath.Join(o.Root, basesDir), 0o700); err != nil {
		return nil, err
	}
	unfinished, err := os.ReadDir(s.temp())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range unfinished {
		if err := s.discard(filepath.Join(s.temp(), e.Name())); err != nil {
			return nil, err
		}
	}
	return s, os.MkdirAll(s.temp(), 0o700)
}

func (s *Store) temp() string { return filepath.Join(s.opts.Root, tempDir) }

// rootFS is the name of the directory in a temporary one at which an image's
// root file system is mounted.
const rootFS = "rootfs"

// discard removes a temporary directory, but nothing of an image that is
// mounted in it.
func (s *Store) discard(dir string) error {
	if err := mount.UnmountAll(filepath.Join(dir, rootFS), unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting the root file system in %s: %w", dir, err)
	}
	return os.RemoveAll(dir)
}

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

// info is what is kept about a base disk. It is written last: a base without
// it is not complete.
type info struct {
	Bootable bool   `json:"bootable,omitempty"`
	Format   string `json:"format"`
	Size     int64  `json:"size"`
	Users    Users  `json:"users"`
}

// Prepare makes the base disk of an image unless there is one. image is a name
// or an id that containerd knows.
func (s *Store) Prepare(ctx context.Context, image string) (_ *Image, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("disk of image %s: %w", image, err)
		}
	}()
	found, err := s.source.find(ctx, image)
	if err != nil {
		return nil, err
	}
	unlock, err := s.lock(ctx, found.chain)
	if err != nil {
		return nil, err
	}
	defer unlock()
	dir := s.base(found.chain)
	i, err := readInfo(dir)
	if errors.Is(err, fs.ErrNotExist) {
		begin := time.Now()
		if i, err = s.build(ctx, found); err == nil {
			s.opts.Log.WithFields(logrus.Fields{"image": image, "took": time.Since(begin).Round(time.Millisecond)}).
				Info("made the base disk of an image")
		}
	}
	if err != nil {
		return nil, err
	}
	// Collect leaves alone what was asked for a moment ago.
	if now := s.now(); os.Chtimes(dir, now, now) != nil {
		return nil, fmt.Errorf("%s: %w", dir, fs.ErrNotExist)
	}
	return &Image{
		Chain: found.chain, Config: found.config, Bootable: i.Bootable,
		Base: filepath.Join(dir, baseFile), Format: i.Format, Size: i.Size, Users: i.Users,
	}, nil
}

// base is the directory of the base disk of a chain.
func (s *Store) base(chain string) string {
	return filepath.Join(s.opts.Root, basesDir, digest.Digest(chain).Encoded())
}

// lock waits until nobody else works on the base disk of a chain.
func (s *Store) lock(ctx context.Context, chain string) (unlock func(), err error) {
	s.mu.Lock()
	token, ok := s.busy[chain]
	if !ok {
		token = make(chan struct{}, 1)
		s.busy[chain] = token
	}
	s.mu.Unlock()
	select {
	case token <- struct{}{}:
		return func() { <-token }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func readInfo(dir string) (i info, err error) {
	data, err := os.ReadFile(filepath.Join(dir, infoFile))
	if err != nil {
		return i, err
	}
	if err := json.Unmarshal(data, &i); err != nil {
		return i, fmt.Errorf("%s: %w", dir, err)
	}
	return i, nil
}

// build makes a base disk aside and moves it to its place.
func (s *Store) build(ctx context.Context, found image) (i info, err error) {
	temp, err := os.MkdirTemp(s.temp(), "")
	if err != nil {
		return i, err
	}
	defer func() { err = errors.Join(err, s.discard(temp)) }()
	out := filepath.Join(temp, "out")
	root := filepath.Join(temp, rootFS)
	if err := errors.Join(os.MkdirAll(filepath.Join(out, refsDir), 0o700), os.Mkdir(root, 0o700)); err != nil {
		return i, err
	}
	err = found.mounted(ctx, root, func() error {
		i, err = s.fill(ctx, root, filepath.Join(out, baseFile))
		return err
	})
	if err != nil {
		return i, err
	}
	data, err := json.Marshal(i)
	if err != nil {
		return i, err
	}
	if err := atomicfile.Write(filepath.Join(out, infoFile), data, 0o600); err != nil {
		return i, err
	}
	final := s.base(found.chain)
	if err := os.RemoveAll(final); err != nil { // incomplete
		return i, err
	}
	return i, os.Rename(out, final)
}

// Overlay makes a disk at path, a qcow2 file, that starts as img's base disk.
// size is its virtual size in bytes; 0 and what is smaller than the base mean
// the base's. While the file exists the base is kept.
func (s *Store) Overlay(ctx context.Context, img *Image, path string, size int64) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("disk %s: %w", path, err)
		}
	}()
	if !filepath.IsAbs(path) {
		return errors.New("the path is not absolute")
	}
	unlock, err := s.lock(ctx, img.Chain)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(img.Base); err != nil {
		return err
	}
	ref := filepath.Join(s.base(img.Chain), refsDir, digest.FromString(path).Encoded())
	if err := atomicfile.Write(ref, []byte(path), 0o600); err != nil {
		return err
	}
	if err := run(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-F", img.Format, "-b", img.Base, path,
		strconv.FormatInt(max(size, img.Size), 10)); err != nil {
		return errors.Join(err, os.RemoveAll(path), os.Remove(ref))
	}
	return nil
}

// run runs a program that is found in PATH and says what it said.
func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err == nil {
		return nil
	}
	if text := strings.TrimSpace(string(out)); text != "" {
		return fmt.Errorf("%s: %w: %s", name, err, text)
	}
	return fmt.Errorf("%s: %w", name, err)
}
