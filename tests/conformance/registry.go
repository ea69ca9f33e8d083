package main

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// registry serves the images to the nodes, as the registries in their names
// would: for pods that want them pulled, whatever there is on the node.
type registry struct {
	server *http.Server
	// blobs is a directory of files that are named by their digests.
	blobs string
	// manifests are the digests of the images, by repository and tag.
	manifests map[string]string
	address   string
}

// serveImages unpacks the archives below dir and serves them at ip.
func serveImages(dir string, ip net.IP, archives []string) (*registry, error) {
	r := &registry{blobs: filepath.Join(dir, "blobs"), manifests: map[string]string{}}
	for _, archive := range archives {
		if err := r.unpack(archive, dir); err != nil {
			return nil, fmt.Errorf("%s: %w", archive, err)
		}
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(ip.String(), "0"))
	if err != nil {
		return nil, err
	}
	r.address = listener.Addr().String()
	r.server = &http.Server{Handler: r}
	go func() { _ = r.server.Serve(listener) }()
	return r, nil
}

func (r *registry) close() { _ = r.server.Shutdown(context.Background()) }

// unpack adds the content of an OCI layout in a tar archive.
func (r *registry) unpack(archive, dir string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	for in := tar.NewReader(f); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch name := path.Clean(header.Name); {
		case header.Typeflag != tar.TypeReg:
		case name == "index.json":
			var index struct {
				Manifests []struct {
					Digest      string
					Annotations map[string]string
				}
			}
			if err := json.NewDecoder(in).Decode(&index); err != nil {
				return err
			}
			for _, m := range index.Manifests {
				_, repository, _ := strings.Cut(m.Annotations["io.containerd.image.name"], "/")
				r.manifests[repository] = m.Digest
			}
		case strings.HasPrefix(name, "blobs/"):
			if err := save(filepath.Join(dir, filepath.FromSlash(name)), in); err != nil {
				return err
			}
		}
	}
}

func save(file string, content io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, content)
	return errors.Join(err, out.Close())
}

// ServeHTTP answers what a puller asks: /v2/REPOSITORY/manifests/TAG, and
// manifests and blobs by their digest.
func (r *registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	rest := strings.TrimPrefix(req.URL.Path, "/v2/")
	repository, name, manifest := strings.Cut(rest, "/manifests/")
	if !manifest {
		_, name, _ = strings.Cut(rest, "/blobs/")
	} else if digest, ok := r.manifests[repository+":"+name]; ok {
		name = digest
	}
	algorithm, digest, ok := strings.Cut(name, ":")
	if !ok || strings.ContainsAny(name, "/\\") {
		http.NotFound(w, req)
		return
	}
	file, err := os.Open(filepath.Join(r.blobs, algorithm, digest))
	if err != nil {
		http.NotFound(w, req)
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	kind := "application/octet-stream"
	if manifest {
		kind = "application/vnd.oci.image.manifest.v1+json"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Docker-Content-Digest", name)
	http.ServeContent(w, req, "", info.ModTime(), file)
}
