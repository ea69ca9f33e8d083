package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/archive/compression"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// namespace is containerd's namespace for what CRI sees.
const namespace = "k8s.io"

// pinned marks an image for CRI as one that is not garbage collected. The
// mark io.cri-containerd.image=managed is left to CRI, which adds it together
// with the reference by image id as soon as it sees the new image.
var pinned = map[string]string{"io.cri-containerd.pinned": "pinned"}

// How long CRI may take to notice a new image, which is a matter of
// milliseconds.
const (
	visibleTimeout  = 30 * time.Second
	visibleInterval = 20 * time.Millisecond
)

// errNoImage says that an archive is readable but useless.
var errNoImage = errors.New("no image with a name in it (a tag, or the annotation io.containerd.image.name)")

// containerdStore is containerd, and its CRI.
type containerdStore struct {
	client      *containerd.Client
	cri         runtimeapi.ImageServiceClient
	snapshotter string
}

// connect returns the containerd at a socket.
func connect(socket, snapshotter string) (*containerdStore, error) {
	client, err := containerd.New(socket, containerd.WithDefaultNamespace(namespace))
	if err != nil {
		return nil, fmt.Errorf("connecting to containerd: %w", err)
	}
	conn, ok := client.Conn().(grpc.ClientConnInterface)
	if !ok {
		return nil, errors.Join(errors.New("containerd's client has no connection"), client.Close())
	}
	return &containerdStore{client: client, cri: runtimeapi.NewImageServiceClient(conn), snapshotter: snapshotter}, nil
}

func (c *containerdStore) close() error { return c.client.Close() }

// answers implements store.
func (c *containerdStore) answers(ctx context.Context) bool {
	_, err := c.client.Version(ctx)
	return err == nil
}

// load implements store.
func (c *containerdStore) load(ctx context.Context, path string) (map[string]string, error) {
	imported, err := c.readArchive(ctx, path)
	if err != nil {
		return nil, err
	}
	digests := map[string]string{}
	for _, img := range imported {
		if err := c.finish(ctx, img); err != nil {
			return nil, fmt.Errorf("image %s: %w", img.Name, err)
		}
		digests[img.Name] = img.Target.Digest.String()
	}
	return digests, nil
}

// has implements store.
func (c *containerdStore) has(ctx context.Context, name, digest string) bool {
	img, err := c.client.ImageService().Get(ctx, name)
	return err == nil && img.Target.Digest.String() == digest
}

// id implements store.
func (c *containerdStore) id(ctx context.Context, name string) (string, error) {
	status, err := c.cri.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
	if err != nil {
		return "", fmt.Errorf("asking CRI for the image %s: %w", name, err)
	}
	return status.GetImage().GetId(), nil
}

// pull implements store.
func (c *containerdStore) pull(ctx context.Context, name string) error {
	_, err := c.cri.PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: name}})
	if err != nil {
		return fmt.Errorf("pulling: %w", err)
	}
	return nil
}

func (c *containerdStore) readArchive(ctx context.Context, path string) ([]images.Image, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	stream, err := compression.DecompressStream(f)
	if err != nil {
		return nil, fmt.Errorf("decompressing: %w", err)
	}
	defer stream.Close()
	imported, err := c.client.Import(ctx, stream,
		containerd.WithImageLabels(pinned),
		// An archive of all platforms may hold the layers of one.
		containerd.WithSkipMissing(),
		containerd.WithImageRefTranslator(fullReference))
	if err != nil {
		return nil, fmt.Errorf("reading: %w", err)
	}
	// What follows the end of the archive decides whether a compressed
	// stream is whole.
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return nil, fmt.Errorf("reading: %w", err)
	}
	if len(imported) == 0 {
		return nil, errNoImage
	}
	return imported, nil
}

// fullReference completes the org.opencontainers.image.ref.name of an OCI
// layout. The specification lets it be a mere tag, which names nothing.
func fullReference(name string) string {
	if !strings.ContainsAny(name, "/:@") {
		return ""
	}
	named, err := reference.ParseDockerRef(name)
	if err != nil {
		return ""
	}
	return named.String()
}

// finish makes an imported image ready for use: also by its digest, unpacked,
// and known to CRI.
func (c *containerdStore) finish(ctx context.Context, img images.Image) error {
	named, err := reference.ParseDockerRef(img.Name)
	if err != nil {
		return fmt.Errorf("reference: %w", err)
	}
	if err := containerd.NewImage(c.client, img).Unpack(ctx, c.snapshotter); err != nil {
		// Without its content the image would look present and never start.
		return errors.Join(fmt.Errorf("unpacking: %w", err),
			c.client.ImageService().Delete(context.WithoutCancel(ctx), img.Name))
	}
	byDigest := images.Image{Name: reference.TrimNamed(named).Name() + "@" + img.Target.Digest.String(),
		Target: img.Target, Labels: pinned}
	if _, err := c.client.ImageService().Create(ctx, byDigest); err != nil && !errdefs.IsAlreadyExists(err) {
		return fmt.Errorf("naming it by its digest: %w", err)
	}
	return c.waitVisible(ctx, img.Name)
}

// waitVisible waits until CRI knows the image: it learns of it by an event.
func (c *containerdStore) waitVisible(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, visibleTimeout)
	defer cancel()
	tick := time.NewTicker(visibleInterval)
	defer tick.Stop()
	for {
		status, err := c.cri.ImageStatus(ctx,
			&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
		if err != nil {
			return fmt.Errorf("asking CRI for it: %w", err)
		}
		if status.GetImage().GetPinned() {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for CRI to see it: %w", ctx.Err())
		}
	}
}
