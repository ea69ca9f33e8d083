package images

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/distribution/reference"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// pull asks CRI for every image of the lists, so that mirrors and credentials
// of the registries file apply. What cannot be pulled is logged: the kubelet
// tries again when a pod needs it.
func (i *importer) pull(ctx context.Context, lists []string) {
	for _, path := range lists {
		log := i.Log.WithField("file", path)
		data, err := os.ReadFile(path)
		if err != nil {
			log.WithError(err).Error("cannot read this list of images")
			continue
		}
		names, err := parseList(string(data))
		if err != nil {
			log.WithError(err).Error("some lines of this list of images are ignored")
		}
		for _, name := range names {
			if err := i.pullOne(ctx, name); err != nil {
				if ctx.Err() != nil {
					return
				}
				log.WithError(err).WithField("image", name).Warn("cannot pull this image of the list")
			}
		}
	}
}

func (i *importer) pullOne(ctx context.Context, name string) error {
	spec := &runtimeapi.ImageSpec{Image: name}
	status, err := i.cri.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: spec})
	if err != nil {
		return fmt.Errorf("asking CRI for the image: %w", err)
	}
	if status.GetImage() != nil {
		return nil
	}
	if _, err := i.cri.PullImage(ctx, &runtimeapi.PullImageRequest{Image: spec}); err != nil {
		return fmt.Errorf("pulling: %w", err)
	}
	return nil
}

// parseList returns the full references in a list of images, one a line, with
// empty lines and comments left out, and an error about the lines that are
// none.
func parseList(text string) ([]string, error) {
	var names, bad []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		named, err := reference.ParseDockerRef(line)
		if err != nil {
			bad = append(bad, fmt.Sprintf("%q", line))
			continue
		}
		if name := named.String(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if bad != nil {
		return names, fmt.Errorf("not image references: %s", strings.Join(bad, ", "))
	}
	return names, nil
}
