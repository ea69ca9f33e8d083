//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/scripts/ociarchive"
)

// listsMaxAge is how old the package lists in the cache may be.
const listsMaxAge = 24 * time.Hour

// packageName is Debian's rule for the name of a package.
var packageName = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)

// debian returns the files of packages and of all they depend on.
func debian(ctx context.Context, cache string, packages []string) ([]ociarchive.File, error) {
	for _, p := range packages {
		if !packageName.MatchString(p) {
			return nil, fmt.Errorf("--deb %q: want the name of a Debian package", p)
		}
	}
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("--deb needs Debian's tools: %w", err)
		}
	}
	a, err := newApt(cache)
	if err != nil {
		return nil, err
	}
	defer a.lock.Close()
	if a.listsAge() > listsMaxAge {
		// Old lists are better than none: there may be no network now.
		if err := a.update(ctx); err != nil && a.listsAge() == forever {
			return nil, err
		}
	}
	debs, err := a.download(ctx, packages)
	if err != nil {
		// The archive may have moved on since the lists were fetched.
		if updateErr := a.update(ctx); updateErr != nil {
			return nil, errors.Join(err, updateErr)
		}
		if debs, err = a.download(ctx, packages); err != nil {
			return nil, err
		}
	}
	var files []ociarchive.File
	for _, deb := range debs {
		content, err := unpack(ctx, deb)
		if err != nil {
			return nil, fmt.Errorf("unpacking %s: %w", filepath.Base(deb), err)
		}
		files = append(files, content...)
	}
	return append(files, certificateBundle(files)...), nil
}

// apt runs apt-get with state of its own below dir, so that it asks nothing of
// the machine but its sources, works without root, and sees a machine on which
// nothing is installed: what it would install is the whole closure.
type apt struct {
	dir  string
	lock *os.File
}

func newApt(cache string) (*apt, error) {
	dir, err := filepath.Abs(filepath.Join(cache, "apt"))
	if err != nil {
		return nil, err
	}
	for _, d := range []string{"lists/partial", "archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, fmt.Errorf("--cache: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "status"), nil, 0o644); err != nil {
		return nil, fmt.Errorf("--cache: %w", err)
	}
	// apt's own locks make a second run fail; ours makes it wait.
	lock, err := os.OpenFile(filepath.Join(dir, "mkimage.lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("--cache: %w", err)
	}
	for {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("--cache: %w", err)
	}
	return &apt{dir: dir, lock: lock}, nil
}

func (a *apt) path(name string) string { return filepath.Join(a.dir, name) }

func (a *apt) run(ctx context.Context, args ...string) ([]byte, error) {
	options := []string{
		"-q", "-y",
		"-o", "Dir::State=" + a.dir,
		"-o", "Dir::State::Lists=" + a.path("lists"),
		"-o", "Dir::State::status=" + a.path("status"),
		"-o", "Dir::Cache=" + a.dir,
		"-o", "Dir::Cache::Archives=" + a.path("archives"),
		"-o", "APT::Sandbox::User=root",
		"-o", "APT::Get::List-Cleanup=false",
		"-o", "Acquire::Retries=3",
	}
	cmd := exec.CommandContext(ctx, "apt-get", append(options, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// forever is the age of lists that are not there.
const forever = time.Duration(1<<63 - 1)

func (a *apt) listsAge() time.Duration {
	fi, err := os.Stat(a.path("updated"))
	if err != nil {
		return forever
	}
	return time.Since(fi.ModTime())
}

func (a *apt) update(ctx context.Context) error {
	if _, err := a.run(ctx, "update", "-o", "APT::Update::Error-Mode=any"); err != nil {
		return err
	}
	return os.WriteFile(a.path("updated"), nil, 0o644)
}

// installLine is what apt-get says of one package that it would install:
// "Inst curl (7.88.1-10 Debian:12/stable [amd64])".
var installLine = regexp.MustCompile(`(?m)^Inst (\S+) \((\S+) [^\[]*\[(\S+)\]`)

// download returns the .deb files of packages and of what they depend on,
// sorted by name.
func (a *apt) download(ctx context.Context, packages []string) ([]string, error) {
	install := append([]string{"install", "--no-install-recommends"}, packages...)
	plan, err := a.run(ctx, append(install, "--simulate")...)
	if err != nil {
		return nil, err
	}
	if _, err := a.run(ctx, append(install, "--download-only")...); err != nil {
		return nil, err
	}
	var debs []string
	for _, m := range installLine.FindAllSubmatch(plan, -1) {
		name, _, _ := strings.Cut(string(m[1]), ":")
		version := strings.ReplaceAll(string(m[2]), ":", "%3a")
		deb := a.path("archives/" + name + "_" + version + "_" + string(m[3]) + ".deb")
		if _, err := os.Stat(deb); err != nil {
			return nil, fmt.Errorf("apt-get downloaded no %s: %w", name, err)
		}
		debs = append(debs, deb)
	}
	if len(debs) == 0 {
		return nil, fmt.Errorf("apt-get would install nothing for %s:\n%s", strings.Join(packages, " "), plan)
	}
	slices.Sort(debs)
	return debs, nil
}

// unpack reads the files of a package.
func unpack(ctx context.Context, deb string) ([]ociarchive.File, error) {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	files, err := readTar(stdout)
	// Whatever is left must be read, or dpkg-deb would not end.
	_, drainErr := io.Copy(io.Discard, stdout)
	if waitErr := cmd.Wait(); waitErr != nil {
		return nil, fmt.Errorf("dpkg-deb: %w: %s", waitErr, strings.TrimSpace(stderr.String()))
	}
	return files, errors.Join(err, drainErr)
}

func readTar(r io.Reader) ([]ociarchive.File, error) {
	var files []ociarchive.File
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		name := path.Clean("/" + h.Name)
		if unneeded(name) {
			continue
		}
		f := ociarchive.File{Path: name, Mode: fileMode(uint64(h.Mode)), UID: h.Uid, GID: h.Gid}
		switch h.Typeflag {
		case tar.TypeReg:
			if f.Data, err = io.ReadAll(tr); err != nil {
				return nil, err
			}
		case tar.TypeDir:
			f.Mode |= fs.ModeDir
		case tar.TypeSymlink:
			f.Mode |= fs.ModeSymlink
			f.Link = h.Linkname
		case tar.TypeLink:
			f.HardLink, f.Link = true, path.Clean("/"+h.Linkname)
		default:
			return nil, fmt.Errorf("%s is of tar type %q, which an image cannot hold", h.Name, h.Typeflag)
		}
		files = append(files, f)
	}
}

// unneeded reports whether a file is only there for people. Licences stay.
func unneeded(name string) bool {
	for _, dir := range []string{"/usr/share/man/", "/usr/share/locale/", "/usr/share/lintian/", "/usr/share/info/"} {
		if strings.HasPrefix(name, dir) {
			return true
		}
	}
	doc, ok := strings.CutPrefix(name, "/usr/share/doc/")
	_, file, inPackage := strings.Cut(doc, "/")
	return ok && inPackage && file != "copyright"
}

// certificateBundle does the one thing of a maintainer script that an image
// with TLS clients cannot do without: the bundle of ca-certificates.
func certificateBundle(files []ociarchive.File) []ociarchive.File {
	var certificates []ociarchive.File
	for _, f := range files {
		if strings.HasPrefix(f.Path, "/usr/share/ca-certificates/") && path.Ext(f.Path) == ".crt" {
			certificates = append(certificates, f)
		}
	}
	if len(certificates) == 0 {
		return nil
	}
	slices.SortFunc(certificates, func(a, b ociarchive.File) int { return strings.Compare(a.Path, b.Path) })
	var bundle bytes.Buffer
	for _, c := range certificates {
		bundle.Write(bytes.TrimSpace(c.Data))
		bundle.WriteByte('\n')
	}
	return []ociarchive.File{{Path: "/etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Data: bundle.Bytes()}}
}
