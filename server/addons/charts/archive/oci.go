package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"helm.sh/helm/v4/pkg/registry"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
)

const (
	// maxManifest is the largest manifest that a registry may answer with, and maxTags the most tags that are
	// looked at for a version.
	maxManifest = 4 << 20
	maxTags     = 20000
)

// errEnough ends a list of tags.
var errEnough = errors.New("enough")

// pull gets a chart from a registry.
func (s Source) pull(ctx context.Context) ([]byte, error) {
	client, done, err := s.client()
	if err != nil {
		return nil, err
	}
	defer done()
	repository, err := remote.NewRepository(strings.TrimPrefix(s.Chart, registry.OCIScheme+"://"))
	if err != nil {
		return nil, err
	}
	repository.PlainHTTP = s.PlainHTTP
	credential, err := s.credential(repository.Reference.Host())
	if err != nil {
		return nil, err
	}
	authorized := &auth.Client{Client: client, Cache: auth.NewCache(), Credential: credential}
	authorized.SetUserAgent("a4s")
	repository.Client = authorized
	reference := repository.Reference.Reference // a tag or a digest in spec.chart
	if reference == "" {
		if reference, err = s.tag(ctx, repository); err != nil {
			return nil, err
		}
	}
	layer, err := layerOf(ctx, repository, reference)
	if err != nil {
		return nil, err
	}
	blob, err := repository.Blobs().Fetch(ctx, layer)
	if err != nil {
		return nil, err
	}
	defer blob.Close()                  //nolint:errcheck // it was only read
	return content.ReadAll(blob, layer) // as much as the descriptor says, with that digest
}

// credential says what to send to which registry.
func (s Source) credential(host string) (auth.CredentialFunc, error) {
	if len(s.DockerConfig) > 0 {
		store, err := credentials.NewMemoryStoreFromDockerConfig(s.DockerConfig)
		if err != nil {
			return nil, fmt.Errorf("the credentials for registries: %w", err)
		}
		return credentials.Credential(store), nil
	}
	if s.Username == "" {
		return auth.StaticCredential("", auth.EmptyCredential), nil
	}
	own := auth.Credential{Username: s.Username, Password: s.Password}
	if s.PassCredentials {
		return func(context.Context, string) (auth.Credential, error) { return own, nil }, nil
	}
	return auth.StaticCredential(host, own), nil
}

// tag finds the one for the version, which may be a range: then it is the newest in it.
func (s Source) tag(ctx context.Context, repository *remote.Repository) (string, error) {
	if exact(s.Version) {
		return asTag(s.Version), nil
	}
	var tags []string
	err := repository.Tags(ctx, "", func(some []string) error {
		tags = append(tags, some...)
		if len(tags) >= maxTags {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return "", fmt.Errorf("listing the versions: %w", err)
	}
	found, err := registry.GetTagMatchingVersionOrConstraint(versions(tags), s.Version)
	if err != nil {
		return "", fmt.Errorf("%d tags: %w", len(tags), err)
	}
	return asTag(found), nil
}

// asTag is a version as Helm writes it into a tag, where no plus can be.
func asTag(version string) string { return strings.ReplaceAll(version, "+", "_") }

// layerOf is the layer of a manifest that is the chart.
func layerOf(ctx context.Context, repository *remote.Repository, reference string) (ocispec.Descriptor, error) {
	var none ocispec.Descriptor
	desc, body, err := repository.FetchReference(ctx, reference)
	if err != nil {
		return none, err
	}
	defer body.Close() //nolint:errcheck // it was only read
	if desc.Size > maxManifest {
		return none, fmt.Errorf("the manifest has %d bytes; the most is %d", desc.Size, maxManifest)
	}
	data, err := content.ReadAll(body, desc)
	if err != nil {
		return none, err
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(data, &manifest); err != nil {
		return none, fmt.Errorf("the manifest: %w", err)
	}
	i := slices.IndexFunc(manifest.Layers, func(d ocispec.Descriptor) bool {
		return d.MediaType == registry.ChartLayerMediaType || d.MediaType == registry.LegacyChartLayerMediaType
	})
	if i < 0 {
		return none, fmt.Errorf("%q is %s without a layer of type %s, so it is no chart", reference, desc.MediaType,
			registry.ChartLayerMediaType)
	}
	if layer := manifest.Layers[i]; layer.Size <= maxArchive {
		return layer, nil
	}
	return none, fmt.Errorf("the chart has %d bytes; the most is %d", manifest.Layers[i].Size, int64(maxArchive))
}
