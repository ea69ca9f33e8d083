package containerd_test

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	ctrd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/agent/vm/disks"
	"github.com/a4s-io/a4s/scripts/ociarchive"
)

const diskImage = "docker.io/library/vm-disk-test:1"

// bigImage is an archive of an image of 307 MB in 3,000 files.
func bigImage(t *testing.T) string {
	t.Helper()
	noise := make([]byte, 100<<10)
	if _, err := io.ReadFull(rand.NewChaCha8([32]byte{}), noise); err != nil {
		t.Fatal(err)
	}
	img := ociarchive.Image{
		Ref: diskImage, User: "app", Plain: true,
		Files: []ociarchive.File{{Path: "/etc/passwd", Mode: 0o644, Data: []byte("app:x:1000:1000::/app:/bin/sh\n")}},
	}
	for i := range 3000 {
		name := filepath.Join("/data", string(rune('a'+i%26)), time.Duration(i).String())
		img.Files = append(img.Files, ociarchive.File{Path: name, Mode: 0o644, UID: 1000, GID: 1000, Data: noise})
	}
	path := filepath.Join(t.TempDir(), "image.tar")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := ociarchive.Write(f, img); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDisksOfImages makes the disks of virtual machines from what containerd
// has.
func TestDisksOfImages(t *testing.T) {
	n := newNode(t)
	n.start()
	defer n.stop()
	client, err := ctrd.New(n.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx := namespaces.WithNamespace(n.ctx, disks.Namespace)
	archive, err := os.Open(bigImage(t))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if _, err := client.Import(ctx, archive); err != nil {
		t.Fatal(err)
	}
	// The CRI service makes it known by its id too.
	var id string
	n.waitFor("the image is known", func() bool {
		status, err := n.images.ImageStatus(n.ctx,
			&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: diskImage}})
		id = status.GetImage().GetId()
		return err == nil && id != ""
	})
	store, err := disks.New(disks.Options{Root: filepath.Join(n.Data, "vm"), Client: client, Snapshotter: "overlayfs"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Prepare(n.ctx, "docker.io/library/none:1"); !errdefs.IsNotFound(err) {
		t.Errorf("an image that does not exist: %v", err)
	}
	begin := time.Now()
	var wg sync.WaitGroup
	for _, name := range []string{diskImage, id} {
		wg.Go(func() {
			img, err := store.Prepare(n.ctx, name)
			if err != nil {
				t.Error(err)
				return
			}
			user, err := img.Users.Resolve(img.Config.User)
			if err != nil || user.UID != 1000 || img.Bootable {
				t.Errorf("%s: %+v, user %+v, %v", name, img, user, err)
			}
		})
	}
	wg.Wait()
	took := time.Since(begin)
	bytes, files, err := store.Usage()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("base disk: %d MB in %d files after %s", bytes>>20, files, took)
	if bytes < 290<<20 || bytes > 400<<20 {
		t.Errorf("the disks take %d bytes", bytes)
	}
	img, err := store.Prepare(n.ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(t.TempDir(), "overlay")
	begin = time.Now()
	if err := store.Overlay(n.ctx, img, overlay, 0); err != nil {
		t.Fatal(err)
	}
	t.Logf("overlay after %s", time.Since(begin))

	// Nothing of the making is left in containerd.
	err = client.SnapshotService("overlayfs").Walk(ctx, func(_ context.Context, s snapshots.Info) error {
		if s.Kind == snapshots.KindView {
			t.Errorf("the view %s is left", s.Name)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	leases, err := client.LeasesService().List(ctx)
	if err != nil || len(leases) != 0 {
		t.Errorf("leases are left: %v, %v", leases, err)
	}
	if freed, err := store.Collect(n.ctx); err != nil || freed != 0 {
		t.Errorf("collected %d bytes of an image that is there, %v", freed, err)
	}
}
