package images

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/distribution/reference"
)

// pull asks CRI for every image of the lists, so that mirrors and credentials
// of the registries file apply. What cannot be pulled is logged: the kubelet
// tries again when a pod needs it.
func (i *importer) pull(ctx context.Context, lists []file) {
	for _, list := range lists {
		log := i.Log.WithField("file", list.path)
		data, err := os.ReadFile(list.path)
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
	id, err := i.store.id(ctx, name)
	if err != nil || id != "" {
		return err
	}
	return i.store.pull(ctx, name)
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
