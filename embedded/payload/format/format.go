package format

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Names of the two files of a payload, and of those of the tools, which are extracted when they are
// asked for.
const (
	ArchiveName       = "payload.tar.zst"
	ManifestName      = "payload.sha256"
	ToolsArchiveName  = "tools.tar.zst"
	ToolsManifestName = "tools.sha256"
)

// PauseImage is the name of the sandbox image that a payload carries.
const PauseImage = "docker.io/a4s/pause:1"

// ErrDamaged is in the chain of every error about content that does not match
// its manifest.
var ErrDamaged = errors.New("damaged")

// File is one file of a payload.
type File struct {
	// Path is relative, with slashes.
	Path string
	Data []byte
}

// Entry is what the manifest says of one file.
type Entry struct {
	Path string
	// SHA256 is the file's hash in lower-case hexadecimal.
	SHA256 string
}

// Mode is the permissions that the file has on disk.
func (e Entry) Mode() fs.FileMode {
	if strings.HasPrefix(e.Path, "bin/") {
		return 0o755
	}
	return 0o644
}

// Manifest names the content of a payload.
type Manifest struct {
	// ArchiveSHA256 is the hash of the archive, the payload's identity.
	ArchiveSHA256 string
	// Entries are the files, sorted by path.
	Entries []Entry
}

// Pack renders files as a payload's archive and its manifest.
func Pack(files []File) (archive, manifest []byte, err error) { return pack(ArchiveName, files) }

// PackTools is Pack for the tools.
func PackTools(files []File) (archive, manifest []byte, err error) {
	return pack(ToolsArchiveName, files)
}

func pack(name string, files []File) (archive, manifest []byte, err error) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })

	var compressed bytes.Buffer
	// One worker, because the order of blocks must not depend on timing.
	zw, err := zstd.NewWriter(&compressed, zstd.WithEncoderLevel(zstd.SpeedBestCompression),
		zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(16<<20))
	if err != nil {
		return nil, nil, err
	}
	tw := tar.NewWriter(zw)
	var lines strings.Builder
	for i, f := range files {
		if err := checkPath(f.Path); err != nil {
			return nil, nil, err
		}
		if i > 0 && files[i-1].Path == f.Path {
			return nil, nil, fmt.Errorf("payload: %s is there twice", f.Path)
		}
		e := Entry{Path: f.Path, SHA256: hash(f.Data)}
		fmt.Fprintf(&lines, "%s  %s\n", e.SHA256, e.Path)
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: e.Path, Mode: int64(e.Mode()),
			Size: int64(len(f.Data)), ModTime: time.Unix(1, 0).UTC(),
		}
		if err := tw.WriteHeader(h); err != nil {
			return nil, nil, fmt.Errorf("payload: %s: %w", f.Path, err)
		}
		if _, err := tw.Write(f.Data); err != nil {
			return nil, nil, fmt.Errorf("payload: %s: %w", f.Path, err)
		}
	}
	if err := errors.Join(tw.Close(), zw.Close()); err != nil {
		return nil, nil, fmt.Errorf("payload: %w", err)
	}
	head := fmt.Sprintf("%s  %s\n", hash(compressed.Bytes()), name)
	return compressed.Bytes(), []byte(head + lines.String()), nil
}

// ParseManifest reads a manifest that Pack or PackTools wrote.
func ParseManifest(data []byte) (*Manifest, error) {
	m := &Manifest{}
	for line := range strings.Lines(string(data)) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != sha256.Size ||
			sum != strings.ToLower(sum) {
			return nil, fmt.Errorf("payload manifest: %w: line %q is not a hash and a path", ErrDamaged, line)
		}
		if (name == ArchiveName || name == ToolsArchiveName) && m.ArchiveSHA256 == "" {
			m.ArchiveSHA256 = sum
			continue
		}
		if err := checkPath(name); err != nil {
			return nil, fmt.Errorf("payload manifest: %w: %w", ErrDamaged, err)
		}
		m.Entries = append(m.Entries, Entry{Path: name, SHA256: sum})
	}
	if m.ArchiveSHA256 == "" || len(m.Entries) == 0 {
		return nil, fmt.Errorf("payload manifest: %w: it does not name the archive and its files", ErrDamaged)
	}
	return m, nil
}

// Unpack calls write for every file of the archive, after checking the hash of
// the whole archive and of that file. It fails if a file that the manifest
// names is missing.
func (m *Manifest) Unpack(archive []byte, write func(Entry, []byte) error) error {
	if got := hash(archive); got != m.ArchiveSHA256 {
		return fmt.Errorf("payload archive: %w: its sha256 is %s, want %s", ErrDamaged, got, m.ArchiveSHA256)
	}
	want := map[string]Entry{}
	for _, e := range m.Entries {
		want[e.Path] = e
	}
	zr, err := zstd.NewReader(bytes.NewReader(archive), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("payload archive: %w", err)
	}
	defer zr.Close()
	tr := tar.NewReader(zr)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("payload archive: %w: %w", ErrDamaged, err)
		}
		e, ok := want[h.Name]
		if !ok {
			return fmt.Errorf("payload archive: %w: %s is not in the manifest", ErrDamaged, h.Name)
		}
		delete(want, h.Name)
		data, err := io.ReadAll(tr)
		if err != nil {
			return fmt.Errorf("payload archive: %w: %s: %w", ErrDamaged, h.Name, err)
		}
		if got := hash(data); got != e.SHA256 {
			return fmt.Errorf("payload archive: %w: the sha256 of %s is %s, want %s", ErrDamaged,
				h.Name, got, e.SHA256)
		}
		if err := write(e, data); err != nil {
			return err
		}
	}
	for p := range want {
		return fmt.Errorf("payload archive: %w: %s is missing", ErrDamaged, p)
	}
	return nil
}

func checkPath(p string) error {
	if p == "" || p == "." || path.IsAbs(p) || path.Clean(p) != p || p == ".." || strings.HasPrefix(p, "../") ||
		strings.ContainsAny(p, "\n\\") {
		return fmt.Errorf("payload: %q is not a clean relative path", p)
	}
	return nil
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
