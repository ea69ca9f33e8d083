package registry

import (
	"strings"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// mostImages bounds what each image of a pod is compared with.
const mostImages = 64

func validateImages(tenant string, images []string, path *field.Path) (errs field.ErrorList) {
	if len(images) > 0 && tenant == space.System {
		return field.ErrorList{field.Forbidden(path, "administrators say what pods of the system space run")}
	}
	if n := len(images); n > mostImages {
		return field.ErrorList{field.TooMany(path, n, mostImages)}
	}
	if len(images) == 1 && images[0] == tenantapi.Everything {
		return nil
	}
	seen := map[string]bool{}
	for i, image := range images {
		switch {
		case seen[image]:
			errs = append(errs, field.Duplicate(path.Index(i), image))
		case !isRegistry(image):
			errs = append(errs, field.Invalid(path.Index(i), image, "want a registry, in full and in lower case, "+
				"with or without a path, and without a tag: docker.io/library, registry.example.com:5000/team"))
		}
		seen[image] = true
	}
	return errs
}

// isRegistry reports whether names of images can begin so, in the form in which they are
// compared.
func isRegistry(s string) bool {
	const hub = "docker.io"
	host, _, _ := strings.Cut(s, "/")
	if s == hub {
		return true
	}
	if host != "localhost" && !strings.ContainsAny(host, ".:") || strings.ToLower(s) != s {
		return false
	}
	// A name below it is what it was, so that nothing was filled in or is another's.
	below := s + "/x"
	named, err := reference.ParseNormalizedNamed(below)
	return err == nil && named.String() == below
}
