package disks

import (
	"context"
	"errors"
	"fmt"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"
)

// source is where images come from.
type source interface {
	find(ctx context.Context, image string) (image, error)
	// chains returns the chain ids of all images.
	chains(ctx context.Context) ([]string, error)
}

// image is an image that was found.
type image struct {
	chain  string
	config ocispec.ImageConfig
	// mounted runs f while the image's root file system is mounted read-only
	// at target.
	mounted func(ctx context.Context, target string, f func() error) error
}

// leaseFor protects what is worked on from containerd's garbage collection,
// and ends by itself if this process does.
const leaseFor = time.Hour

// imageSource takes images from containerd.
type imageSource struct {
	client      *containerd.Client
	snapshotter string
}

func (s imageSource) find(ctx context.Context, name string) (image, error) {
	ctx = namespaces.WithNamespace(ctx, Namespace)
	img, err := s.client.GetImage(ctx, name)
	if err != nil {
		return image{}, err
	}
	layers, err := img.RootFS(ctx)
	if err != nil {
		return image{}, err
	}
	if len(layers) == 0 {
		return image{}, errors.New("it has no layers")
	}
	spec, err := img.Spec(ctx)
	if err != nil {
		return image{}, err
	}
	chain := identity.ChainID(layers).String()
	return image{chain: chain, config: spec.Config,
		mounted: func(ctx context.Context, target string, f func() error) error {
			return s.mounted(namespaces.WithNamespace(ctx, Namespace), img, chain, target, f)
		}}, nil
}

func (s imageSource) mounted(
	ctx context.Context, img containerd.Image, chain, target string, f func() error,
) (err error) {
	ctx, release, err := s.client.WithLease(ctx, leases.WithRandomID(), leases.WithExpiration(leaseFor))
	if err != nil {
		return err
	}
	undo := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, release(undo)) }()
	unpacked, err := img.IsUnpacked(ctx, s.snapshotter)
	if err != nil {
		return err
	}
	if !unpacked {
		if err := img.Unpack(ctx, s.snapshotter); err != nil {
			return fmt.Errorf("unpacking: %w", err)
		}
	}
	snapshots := s.client.SnapshotService(s.snapshotter)
	// The lease's name is as good as any that nobody else has.
	lease, _ := leases.FromContext(ctx)
	key := "a4s-vm-" + lease
	mounts, err := snapshots.View(ctx, key, chain)
	if err != nil {
		return err
	}
	defer func() {
		if removeErr := snapshots.Remove(undo, key); !errdefs.IsNotFound(removeErr) {
			err = errors.Join(err, removeErr)
		}
	}()
	if err := mount.All(mounts, target); err != nil {
		return fmt.Errorf("mounting its root file system: %w", err)
	}
	defer func() { err = errors.Join(err, mount.UnmountAll(target, unix.MNT_DETACH)) }()
	return f()
}

func (s imageSource) chains(ctx context.Context) ([]string, error) {
	ctx = namespaces.WithNamespace(ctx, Namespace)
	list, err := s.client.ListImages(ctx)
	if err != nil {
		return nil, err
	}
	var chains []string
	for _, img := range list {
		layers, err := img.RootFS(ctx)
		if errdefs.IsNotFound(err) {
			continue // it has nothing for this machine, so nothing was made of it
		}
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", img.Name(), err)
		}
		if len(layers) > 0 {
			chains = append(chains, identity.ChainID(layers).String())
		}
	}
	return chains, nil
}
