package ociarchive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Media types and annotations of the OCI image specification and of containerd.
const (
	mediaIndex    = "application/vnd.oci.image.index.v1+json"
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig   = "application/vnd.oci.image.config.v1+json"
	mediaTar      = "application/vnd.oci.image.layer.v1.tar"
	mediaTarGzip  = "application/vnd.oci.image.layer.v1.tar+gzip"

	annotationContainerdName = "io.containerd.image.name"
	annotationRefName        = "org.opencontainers.image.ref.name"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    *platform         `json:"platform,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type imageConfig struct {
	Created      string    `json:"created"`
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Config       runConfig `json:"config"`
	RootFS       rootFS    `json:"rootfs"`
}

type runConfig struct {
	User       string            `json:"User,omitempty"`
	Env        []string          `json:"Env,omitempty"`
	Entrypoint []string          `json:"Entrypoint,omitempty"`
	Cmd        []string          `json:"Cmd,omitempty"`
	WorkingDir string            `json:"WorkingDir,omitempty"`
	Labels     map[string]string `json:"Labels,omitempty"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// Write writes img to w.
func Write(w io.Writer, img Image) error {
	tag, err := refTag(img.Ref)
	if err != nil {
		return err
	}
	for _, e := range img.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
			return fmt.Errorf("image %s: environment entry %q: want NAME=value", img.Ref, e)
		}
	}
	arch := img.Architecture
	if arch == "" {
		arch = "amd64"
	}

	plain, err := layer(img.Files)
	if err != nil {
		return fmt.Errorf("image %s: %w", img.Ref, err)
	}
	blobs := map[string][]byte{}
	put := func(mediaType string, data []byte) descriptor {
		d := descriptor{MediaType: mediaType, Digest: digest(data), Size: int64(len(data))}
		blobs["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")] = data
		return d
	}
	putJSON := func(mediaType string, v any) (descriptor, error) {
		data, err := json.Marshal(v)
		if err != nil {
			return descriptor{}, fmt.Errorf("image %s: %w", img.Ref, err)
		}
		return put(mediaType, data), nil
	}

	content, media := plain, mediaTar
	if !img.Plain {
		if content, err = gzipped(plain); err != nil {
			return fmt.Errorf("image %s: %w", img.Ref, err)
		}
		media = mediaTarGzip
	}
	layerDesc := put(media, content)
	configDesc, err := putJSON(mediaConfig, imageConfig{
		Created:      epoch.Format("2006-01-02T15:04:05Z"),
		Architecture: arch,
		OS:           "linux",
		Config: runConfig{
			User: img.User, Env: img.Env, Entrypoint: img.Entrypoint, Cmd: img.Cmd,
			WorkingDir: img.WorkingDir, Labels: img.Labels,
		},
		RootFS: rootFS{Type: "layers", DiffIDs: []string{digest(plain)}},
	})
	if err != nil {
		return err
	}
	manifestDesc, err := putJSON(mediaManifest, manifest{
		SchemaVersion: 2, MediaType: mediaManifest, Config: configDesc, Layers: []descriptor{layerDesc},
	})
	if err != nil {
		return err
	}
	manifestDesc.Platform = &platform{Architecture: arch, OS: "linux"}
	manifestDesc.Annotations = map[string]string{annotationContainerdName: img.Ref, annotationRefName: tag}
	indexJSON, err := json.Marshal(index{SchemaVersion: 2, MediaType: mediaIndex,
		Manifests: []descriptor{manifestDesc}})
	if err != nil {
		return fmt.Errorf("image %s: %w", img.Ref, err)
	}
	blobs["index.json"] = indexJSON
	blobs["oci-layout"] = []byte(`{"imageLayoutVersion":"1.0.0"}`)

	if err := writeTar(w, blobs); err != nil {
		return fmt.Errorf("image %s: %w", img.Ref, err)
	}
	return nil
}

// writeTar writes files, and the directories they need, sorted by name.
func writeTar(w io.Writer, files map[string][]byte) error {
	names := []string{"blobs/", "blobs/sha256/"}
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	tw := tar.NewWriter(w)
	for _, name := range names {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(files[name])), ModTime: epoch}
		if strings.HasSuffix(name, "/") {
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := tw.Write(files[name]); err != nil {
			return err
		}
	}
	return tw.Close()
}

// refTag returns the tag of a full reference. The forms that containerd would
// expand by guessing a registry or a tag are refused: the name in the archive
// must be the name that the kubelet asks for.
func refTag(ref string) (string, error) {
	host, rest, ok := strings.Cut(ref, "/")
	name, tag, tagged := strings.Cut(rest, ":")
	if !ok || name == "" || tag == "" || !tagged || strings.ContainsAny(ref, " @") || strings.Contains(tag, "/") ||
		(!strings.ContainsAny(host, ".:") && host != "localhost") {
		return "", fmt.Errorf("image reference %q: want registry/repository:tag, such as docker.io/a4s/pause:1", ref)
	}
	return tag, nil
}

func gzipped(data []byte) ([]byte, error) {
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	if _, err := zw.Write(data); err != nil {
		return nil, err
	}
	if err := zw.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
