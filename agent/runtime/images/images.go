package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// namespace is containerd's namespace for what CRI sees.
const namespace = "k8s.io"

// archiveSuffixes are the names of archives; the content decides about the
// compression.
var archiveSuffixes = []string{".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst"}

// listSuffix is the name of a list of images to pull, one a line.
const listSuffix = ".txt"

// Options say what to import and where to.
type Options struct {
	// Socket is containerd's socket.
	Socket string
	// Snapshotter is where images are unpacked.
	Snapshotter string
	// Required are archives that the node cannot work without.
	Required []string
	// Dir is the directory of the operator's archives and pull lists; it
	// need not exist.
	Dir string
	// StateFile remembers what was imported. It must not be below Dir.
	StateFile string
	// Log is where the operator hears about broken files.
	Log *logrus.Entry
}

// Dir returns the operator's directory below a data directory.
func Dir(dataDir string) string { return filepath.Join(dataDir, "agent", "images") }

// StateFile returns the state file below a data directory.
func StateFile(dataDir string) string { return filepath.Join(dataDir, "agent", "images.json") }

type importer struct {
	Options
	client *containerd.Client
	cri    runtimeapi.ImageServiceClient
	state  state
}

// Import imports the required archives and those in the directory, then pulls
// what the pull lists name in the background until ctx ends. It returns the ids, as CRI
// has them, of all images that came from archives, by name. It fails when containerd does
// not answer or a required archive cannot be imported.
func Import(ctx context.Context, o Options) (ids map[string]string, err error) {
	client, err := containerd.New(o.Socket, containerd.WithDefaultNamespace(namespace))
	if err != nil {
		return nil, fmt.Errorf("importing images: connecting to containerd: %w", err)
	}
	conn, ok := client.Conn().(grpc.ClientConnInterface)
	if !ok {
		return nil, errors.New("importing images: containerd's client has no connection")
	}
	i := &importer{Options: o, client: client, cri: runtimeapi.NewImageServiceClient(conn)}
	i.state = readState(o.StateFile, o.Log)
	lists, err := i.importAll(ctx)
	if err == nil {
		ids, err = i.ids(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	go func() {
		i.pull(ctx, lists)
		if err := client.Close(); err != nil {
			o.Log.WithError(err).Debug("closing the connection to containerd")
		}
	}()
	return ids, nil
}

// ids are those of all images that came from archives, by name.
func (i *importer) ids(ctx context.Context) (map[string]string, error) {
	ids := map[string]string{}
	for _, archive := range i.state {
		for name := range archive.Images {
			status, err := i.cri.ImageStatus(ctx,
				&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
			if err != nil {
				return nil, fmt.Errorf("asking for the id of the image %s: %w", name, err)
			}
			if status.GetImage() != nil { // else it was removed meanwhile
				ids[name] = status.GetImage().GetId()
			}
		}
	}
	return ids, nil
}

// importAll imports all archives and returns the pull lists.
func (i *importer) importAll(ctx context.Context) ([]string, error) {
	for _, path := range i.Required {
		if err := i.importFile(ctx, path); err != nil {
			return nil, fmt.Errorf("importing %s: %w", path, err)
		}
	}
	archives, lists, err := i.scan()
	if err != nil {
		return nil, err
	}
	for _, path := range archives {
		if err := i.importFile(ctx, path); err != nil {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("importing %s: %w", path, context.Cause(ctx))
			}
			i.Log.WithError(err).WithField("file", path).Error("cannot import this image archive")
		}
	}
	i.state.forget(append(slices.Clone(i.Required), archives...))
	if err := i.state.write(i.StateFile); err != nil {
		// It only costs importing the archives again.
		i.Log.WithError(err).Warn("cannot remember which image archives were imported")
	}
	return lists, nil
}

// scan returns the operator's archives and pull lists in alphabetical order.
func (i *importer) scan() (archives, lists []string, err error) {
	entries, err := os.ReadDir(i.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("importing images: %w", err)
	}
	for _, entry := range entries {
		path := filepath.Join(i.Dir, entry.Name())
		isArchive := slices.ContainsFunc(archiveSuffixes, func(s string) bool { return strings.HasSuffix(path, s) })
		st, err := os.Stat(path) // through a link
		switch {
		case strings.HasPrefix(entry.Name(), "."):
		case err != nil:
			i.Log.WithError(err).WithField("file", path).Error("cannot read this file of images")
		case st.Mode().IsRegular() && isArchive:
			archives = append(archives, path)
		case st.Mode().IsRegular() && strings.HasSuffix(path, listSuffix):
			lists = append(lists, path)
		default:
			i.Log.WithField("file", path).
				Warnf("ignored: an image archive is a file named %s, a list of images is named *%s",
					"*"+strings.Join(archiveSuffixes, ", *"), listSuffix)
		}
	}
	return archives, lists, nil
}
