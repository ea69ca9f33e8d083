package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	core "k8s.io/kubernetes/pkg/apis/core"
)

// checkImages keeps a new pod, or what changed in one, to the images that the tenant may
// have. The name is read as nodes read it, so that a short one is what they would pull. No
// level of security lifts it. Old is nil for a new pod.
func (g permits) checkImages(ctx context.Context, tenant string, pod, old *core.Pod) error {
	allowed, err := g.tenants.Images(ctx, tenant)
	if err != nil || len(allowed) == 0 {
		return err
	}
	had := map[string]bool{}
	if old != nil {
		for _, image := range imagesOf(&old.Spec) {
			had[image.name] = true
		}
	}
	for _, image := range imagesOf(&pod.Spec) {
		if had[image.name] {
			continue
		}
		name, err := repositoryOf(image.name)
		if err != nil {
			return fmt.Errorf("%s is %q: %w", image.field, image.name, err)
		}
		begins := func(with string) bool { return name == with || strings.HasPrefix(name, with+"/") }
		if !slices.ContainsFunc(allowed, begins) {
			return fmt.Errorf("%s is %q, an image of %s: this space has images of %s", image.field, image.name, name,
				strings.Join(allowed, ", "))
		}
	}
	return nil
}

// repositoryOf is the registry and the path of an image.
func repositoryOf(image string) (string, error) {
	// Nodes take these for what they have already, from wherever it came.
	if algorithm, _, ok := strings.Cut(image, ":"); ok && slices.Contains([]string{"sha256", "sha384", "sha512"},
		algorithm) {
		return "", errors.New("name its registry: a digest alone is whatever image a node has")
	}
	named, err := reference.ParseDockerRef(image)
	if err != nil {
		return "", fmt.Errorf("it is not the name of an image: %w", err)
	}
	return named.Name(), nil
}

// imageOf is an image with the field that names it.
type imageOf struct{ field, name string }

// imagesOf are all that a pod names.
func imagesOf(spec *core.PodSpec) (out []imageOf) {
	for i := range spec.InitContainers {
		out = append(out, imageOf{fmt.Sprintf("spec.initContainers[%d].image", i), spec.InitContainers[i].Image})
	}
	for i := range spec.Containers {
		out = append(out, imageOf{fmt.Sprintf("spec.containers[%d].image", i), spec.Containers[i].Image})
	}
	for i := range spec.EphemeralContainers {
		out = append(out, imageOf{fmt.Sprintf("spec.ephemeralContainers[%d].image", i),
			spec.EphemeralContainers[i].Image})
	}
	for i := range spec.Volumes {
		if source := spec.Volumes[i].Image; source != nil {
			out = append(out, imageOf{fmt.Sprintf("spec.volumes[%d].image.reference", i), source.Reference})
		}
	}
	return out
}
