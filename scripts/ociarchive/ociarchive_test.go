package ociarchive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// untar returns the entries of an archive in order, and their content.
func untar(t *testing.T, r io.Reader) ([]*tar.Header, map[string][]byte) {
	t.Helper()
	var headers []*tar.Header
	content := map[string][]byte{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return headers, content
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, h)
		content[h.Name] = data
	}
}

// blob returns the blob that d names, having checked its digest and size.
func blob(t *testing.T, content map[string][]byte, d descriptor) []byte {
	t.Helper()
	data, ok := content["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
	if !ok {
		t.Fatalf("the archive has no blob %s", d.Digest)
	}
	if got := digest(data); got != d.Digest || int64(len(data)) != d.Size {
		t.Fatalf("blob %s has digest %s and size %d, want size %d", d.Digest, got, len(data), d.Size)
	}
	return data
}

func decode[T any](t *testing.T, data []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func testImage() Image {
	return Image{
		Ref: "docker.io/a4s/x:1", Entrypoint: []string{"/bin/x"}, Cmd: []string{"serve"},
		Env: []string{"A=b=c"}, User: "1000:1000", WorkingDir: "/tmp", Labels: map[string]string{"l": "v"},
		Files: []File{
			{Path: "/usr/bin/alias", HardLink: true, Link: "/usr/bin/x"},
			{Path: "usr/bin/x", Mode: 0o755 | fs.ModeSetuid, Data: []byte("program"), UID: 1, GID: 2},
			{Path: "/bin", Mode: fs.ModeSymlink | 0o777, Link: "usr/bin"},
			{Path: "/tmp/", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
			{Path: "/etc/name", Mode: 0o600, Data: []byte("old")},
			{Path: "/etc/name", Mode: 0o644, Data: []byte("new")},
		},
	}
}

func TestWriteReadsBack(t *testing.T) {
	for _, plain := range []bool{false, true} {
		img := testImage()
		img.Plain = plain
		var buf bytes.Buffer
		if err := Write(&buf, img); err != nil {
			t.Fatal(err)
		}
		_, content := untar(t, &buf)
		if got := decode[map[string]string](t, content["oci-layout"]); got["imageLayoutVersion"] != "1.0.0" {
			t.Errorf("oci-layout is %v", got)
		}
		idx := decode[index](t, content["index.json"])
		if len(idx.Manifests) != 1 {
			t.Fatalf("the index has %d manifests, want 1", len(idx.Manifests))
		}
		want := map[string]string{"io.containerd.image.name": "docker.io/a4s/x:1",
			"org.opencontainers.image.ref.name": "1"}
		if got := idx.Manifests[0].Annotations; !reflect.DeepEqual(got, want) {
			t.Errorf("annotations are %v, want %v", got, want)
		}
		m := decode[manifest](t, blob(t, content, idx.Manifests[0]))
		cfg := decode[imageConfig](t, blob(t, content, m.Config))
		wantConfig := runConfig{User: img.User, Env: img.Env, Entrypoint: img.Entrypoint, Cmd: img.Cmd,
			WorkingDir: img.WorkingDir, Labels: img.Labels}
		if !reflect.DeepEqual(cfg.Config, wantConfig) || cfg.Architecture != "amd64" || cfg.OS != "linux" {
			t.Errorf("the configuration is %+v", cfg)
		}

		data := blob(t, content, m.Layers[0])
		if !plain {
			zr, err := gzip.NewReader(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			if data, err = io.ReadAll(zr); err != nil {
				t.Fatal(err)
			}
		}
		if got := []string{digest(data)}; !slices.Equal(got, cfg.RootFS.DiffIDs) {
			t.Errorf("diff ids are %v, want %v", cfg.RootFS.DiffIDs, got)
		}
		checkLayer(t, data)
	}
}

func checkLayer(t *testing.T, data []byte) {
	t.Helper()
	headers, files := untar(t, bytes.NewReader(data))
	type entry struct {
		name     string
		kind     byte
		mode     int64
		link     string
		uid, gid int
		data     string
	}
	var got []entry
	for _, h := range headers {
		got = append(got, entry{h.Name, h.Typeflag, h.Mode, h.Linkname, h.Uid, h.Gid, string(files[h.Name])})
		if !h.ModTime.Equal(epoch) {
			t.Errorf("%s has time %v", h.Name, h.ModTime)
		}
	}
	want := []entry{
		{name: "bin", kind: tar.TypeSymlink, mode: 0o777, link: "usr/bin"},
		{name: "etc/", kind: tar.TypeDir, mode: 0o755},
		{name: "etc/name", kind: tar.TypeReg, mode: 0o644, data: "new"},
		{name: "tmp/", kind: tar.TypeDir, mode: 0o1777},
		{name: "usr/", kind: tar.TypeDir, mode: 0o755},
		{name: "usr/bin/", kind: tar.TypeDir, mode: 0o755},
		{name: "usr/bin/x", kind: tar.TypeReg, mode: 0o4755, uid: 1, gid: 2, data: "program"},
		{name: "usr/bin/alias", kind: tar.TypeLink, link: "usr/bin/x"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("the layer holds\n%+v, want\n%+v", got, want)
	}
}

func TestWriteIsDeterministic(t *testing.T) {
	var first, second bytes.Buffer
	img := testImage()
	if err := Write(&first, img); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(img.Files[:4])
	if err := Write(&second, img); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the archive depends on the order of the files")
	}
}

func TestWriteRefuses(t *testing.T) {
	for name, change := range map[string]func(*Image){
		"no registry":        func(i *Image) { i.Ref = "a4s/x:1" },
		"no tag":             func(i *Image) { i.Ref = "docker.io/a4s/x" },
		"no repository":      func(i *Image) { i.Ref = "docker.io:1" },
		"digest":             func(i *Image) { i.Ref = "docker.io/a4s/x:1@sha256:0" },
		"escaping path":      func(i *Image) { i.Files[0].Path = "../x" },
		"empty path":         func(i *Image) { i.Files[0].Path = "" },
		"device":             func(i *Image) { i.Files[1].Mode = fs.ModeDevice },
		"file in a file":     func(i *Image) { i.Files[0].Path = "/etc/name/x" },
		"file in a link":     func(i *Image) { i.Files[0].Path = "/bin/x" },
		"dangling hard link": func(i *Image) { i.Files[0].Link = "/nowhere" },
		"environment":        func(i *Image) { i.Env = []string{"NAME"} },
	} {
		t.Run(name, func(t *testing.T) {
			img := testImage()
			change(&img)
			var out bytes.Buffer
			if err := Write(&out, img); err == nil {
				t.Error("Write succeeded")
			}
			if out.Len() > 0 {
				t.Errorf("Write failed and wrote %d bytes", out.Len())
			}
		})
	}
}
