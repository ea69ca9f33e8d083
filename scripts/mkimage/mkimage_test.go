//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// layer returns "kind mode link|content" by name for the image at archive.
func layer(t *testing.T, archive string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	for tr := tar.NewReader(bytes.NewReader(data)); ; {
		if _, err := tr.Next(); err != nil {
			t.Fatalf("no layer in %s: %v", archive, err)
		}
		zr, err := gzip.NewReader(tr)
		if err != nil {
			continue // a file of the layout
		}
		entries := map[string]string{}
		for lr := tar.NewReader(zr); ; {
			h, err := lr.Next()
			if errors.Is(err, io.EOF) {
				return entries
			}
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(lr)
			if err != nil {
				t.Fatal(err)
			}
			entries[h.Name] = fmt.Sprintf("%c %o %s%s", h.Typeflag, h.Mode, h.Linkname, content)
		}
	}
}

func wantEntries(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, w := range want {
		if got[name] != w {
			t.Errorf("%s is %q, want %q", name, got[name], w)
		}
	}
}

func writeFile(t *testing.T, name, data string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(data), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

func TestFilesLinksAndPrograms(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "tree/sub/file"), "content", 0o640)
	if err := os.Symlink("file", filepath.Join(dir, "tree/sub/alias")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "prog/go.mod"), "module prog\n", 0o644)
	writeFile(t, filepath.Join(dir, "prog/main.go"), "package main\nfunc main() { println(\"hello\") }\n", 0o644)
	t.Chdir(filepath.Join(dir, "prog"))
	out := filepath.Join(dir, "x.tar")
	err := run(t.Context(), []string{
		"--name", "docker.io/a4s/x:1", "--out", out, "--entrypoint", "/x", "--cmd", "a", "--cmd", "b", "--env", "K=V",
		"--go", ".=/x", "--file", dir + "/tree=/srv", "--link", "x=/y", "--dir", "/tmp=1777", "--user", "0",
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	entries := layer(t, out)
	wantEntries(t, entries, map[string]string{
		"srv/sub/file":  "0 640 content",
		"srv/sub/alias": "2 777 file",
		"y":             "2 777 x",
		"tmp/":          "5 1777 ",
	})
	program, ok := strings.CutPrefix(entries["x"], "0 755 ")
	if !ok {
		t.Fatal("the program is not there or not executable")
	}
	writeFile(t, filepath.Join(dir, "x"), program, 0o755)
	if said, err := exec.Command(filepath.Join(dir, "x")).CombinedOutput(); err != nil || string(said) != "hello\n" {
		t.Errorf("the program says %q (%v)", said, err)
	}
}

// repository makes an apt repository and lets apt use only it.
func repository(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	var index strings.Builder
	for _, p := range []struct{ name, version, depends, file, content string }{
		{"front", "1:2.0-1", "Depends: back", "usr/bin/front", "front"},
		{"back", "1.0", "Recommends: never", "usr/share/ca-certificates/x/ca.crt", "certificate"},
		{"other", "1.0", "Section: misc", "usr/bin/other", "other"},
	} {
		root := filepath.Join(dir, p.name)
		control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: x <x@x>\n%s\nDescription: x\n",
			p.name, p.version, runtime.GOARCH, p.depends)
		writeFile(t, filepath.Join(root, "DEBIAN/control"), control, 0o644)
		writeFile(t, filepath.Join(root, "DEBIAN/postinst"), "#!/bin/sh\nexit 1\n", 0o755)
		writeFile(t, filepath.Join(root, p.file), p.content, 0o755)
		writeFile(t, filepath.Join(root, "usr/share/doc/"+p.name+"/copyright"), "licence", 0o644)
		writeFile(t, filepath.Join(root, "usr/share/doc/"+p.name+"/changelog"), "long", 0o644)
		writeFile(t, filepath.Join(root, "usr/share/doc/"+p.name+"/examples/copyright"), "long", 0o644)
		if err := os.Symlink(p.name, filepath.Join(root, "usr", "alias-"+p.name)); err != nil {
			t.Fatal(err)
		}
		deb := filepath.Join(dir, p.name+".deb")
		if out, err := exec.Command("dpkg-deb", "--root-owner-group", "--build", root, deb).
			CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		data, err := os.ReadFile(deb)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&index, "%sFilename: ./%s.deb\nSize: %d\nSHA256: %x\n\n", control, p.name, len(data),
			sha256.Sum256(data))
	}
	writeFile(t, filepath.Join(dir, "Packages"), index.String(), 0o644)
	writeFile(t, filepath.Join(dir, "sources.list"), "deb [trusted=yes] copy:"+dir+" ./\n", 0o644)
	writeFile(t, filepath.Join(dir, "apt.conf"),
		fmt.Sprintf("Dir::Etc::sourcelist %q;\nDir::Etc::sourceparts \"-\";\n", dir+"/sources.list"), 0o644)
	t.Setenv("APT_CONFIG", filepath.Join(dir, "apt.conf"))
}

func TestDebianPackages(t *testing.T) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		t.Skip("this is not Debian")
	}
	repository(t)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mine"), "mine", 0o755)
	base := []string{"--name", "docker.io/a4s/x:1", "--cache", dir}
	out := filepath.Join(dir, "x.tar")
	if err := run(t.Context(), append(base, "--out", out, "--deb", "front"), io.Discard); err != nil {
		t.Fatal(err)
	}
	got := layer(t, out)
	wantEntries(t, got, map[string]string{
		"usr/bin/front":                      "0 755 front",
		"usr/alias-back":                     "2 777 back",
		"usr/share/doc/front/copyright":      "0 644 licence",
		"usr/share/doc/front/changelog":      "",
		"etc/ssl/certs/ca-certificates.crt":  "0 644 certificate\n",
		"usr/share/ca-certificates/x/ca.crt": "0 755 certificate",
		"usr/bin/other":                      "",
		"DEBIAN/control":                     "",
	})

	// A file given by hand wins over one of a package.
	if err := run(t.Context(), append(base, "--out", out, "--deb", "front", "--file", dir+"/mine=/usr/bin/front"),
		io.Discard); err != nil {
		t.Fatal(err)
	}
	wantEntries(t, layer(t, out), map[string]string{"usr/bin/front": "0 755 mine"})

	err := run(t.Context(), append(base, "--out", dir+"/none.tar", "--deb", "no-such-package"), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "no-such-package") {
		t.Errorf("error is %v, want one that names the package", err)
	}
	if _, err := os.Stat(dir + "/none.tar"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a failed run left an archive (%v)", err)
	}
}

func TestBadInput(t *testing.T) {
	for args, want := range map[string]string{
		"":                               "--name is missing",
		"--name docker.io/a/x:1":         "--out is missing",
		"--name x --out DIR/x":           `image reference "x"`,
		"--name docker.io/a/x:1 --out x": "unexpected argument",
		"--name docker.io/a/x:1 --out DIR/x --go .":                    `--go "."`,
		"--name docker.io/a/x:1 --out DIR/x --go ./no/such/package=/x": "--go ./no/such/package",
		"--name docker.io/a/x:1 --out DIR/x --deb -o":                  `--deb "-o"`,
		"--name docker.io/a/x:1 --out DIR/x --file /no/such=/x":        "--file /no/such=/x",
		"--name docker.io/a/x:1 --out DIR/x --dir /tmp=99":             `--dir "/tmp=99"`,
		"--name docker.io/a/x:1 --out DIR/x --label =v":                `--label "=v"`,
		"--name docker.io/a/x:1 --out DIR/no/x":                        "--out",
	} {
		t.Run(args, func(t *testing.T) {
			words := strings.Fields(strings.ReplaceAll(args, "DIR", t.TempDir()))
			if want == "unexpected argument" {
				words = append(words, "more")
			}
			if err := run(t.Context(), words, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error is %v, want %q in it", err, want)
			}
		})
	}
}
