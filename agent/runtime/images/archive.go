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
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

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

// importFile imports one archive unless that was done before.
func (i *importer) importFile(ctx context.Context, path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	if old := i.state[path]; old.sameFile(st) && i.present(ctx, old) {
		return nil
	}
	delete(i.state, path)
	started := time.Now()
	imported, err := i.readArchive(ctx, path)
	if err != nil {
		return err
	}
	r := record{Size: st.Size(), ModTime: st.ModTime(), Images: map[string]string{}}
	for _, img := range imported {
		if err := i.finish(ctx, img); err != nil {
			return fmt.Errorf("image %s: %w", img.Name, err)
		}
		r.Images[img.Name] = img.Target.Digest.String()
	}
	i.state[path] = r
	i.Log.WithField("file", path).Infof("imported %d image(s) in %s", len(imported),
		time.Since(started).Round(time.Millisecond))
	return nil
}

// present says whether containerd still has every image of a record.
func (i *importer) present(ctx context.Context, r record) bool {
	for name, digest := range r.Images {
		img, err := i.client.ImageService().Get(ctx, name)
		if err != nil || img.Target.Digest.String() != digest {
			return false
		}
	}
	return true
}

func (i *importer) readArchive(ctx context.Context, path string) ([]images.Image, error) {
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
	imported, err := i.client.Import(ctx, stream,
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
func (i *importer) finish(ctx context.Context, img images.Image) error {
	named, err := reference.ParseDockerRef(img.Name)
	if err != nil {
		return fmt.Errorf("reference: %w", err)
	}
	if err := containerd.NewImage(i.client, img).Unpack(ctx, i.Snapshotter); err != nil {
		// Without its content the image would look present and never start.
		return errors.Join(fmt.Errorf("unpacking: %w", err),
			i.client.ImageService().Delete(context.WithoutCancel(ctx), img.Name))
	}
	byDigest := images.Image{Name: reference.TrimNamed(named).Name() + "@" + img.Target.Digest.String(),
		Target: img.Target, Labels: pinned}
	if _, err := i.client.ImageService().Create(ctx, byDigest); err != nil && !errdefs.IsAlreadyExists(err) {
		return fmt.Errorf("naming it by its digest: %w", err)
	}
	return i.waitVisible(ctx, img.Name)
}

// waitVisible waits until CRI knows the image: it learns of it by an event.
func (i *importer) waitVisible(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, visibleTimeout)
	defer cancel()
	tick := time.NewTicker(visibleInterval)
	defer tick.Stop()
	for {
		status, err := i.cri.ImageStatus(ctx,
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
