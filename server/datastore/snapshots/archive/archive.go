package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Names of members of the archive.
const (
	// Database is the backend file of etcd, as etcd's snapshot call gives it.
	Database = "etcd.db"
	// ServerPrefix precedes the path of a file below the server directory.
	ServerPrefix = "server/"

	manifestName = "manifest.json"
	sumName      = "manifest.sha256"
)

const (
	kind   = "a4s-snapshot"
	format = 1
	// maxManifest bounds what is read before anything is known of a file.
	maxManifest = 4 << 20
)

// Errors of files that are no good snapshot.
var (
	// ErrForeign means that the file is something else.
	ErrForeign = errors.New("it is not a snapshot of a4s")
	// ErrDamaged means that the file was a snapshot once.
	ErrDamaged = errors.New("it is damaged")
	// ErrFormat means that a newer a4s has written the file.
	ErrFormat = errors.New("it has a format that this version does not know")
)

// Manifest says what is in a snapshot.
type Manifest struct {
	Kind    string    `json:"kind"`
	Format  int       `json:"format"`
	Created time.Time `json:"created"`
	// Node is the name of the machine that it was taken on.
	Node string `json:"node"`
	// Cluster is the hash of the server CA, which is the one in join tokens.
	Cluster string `json:"cluster"`
	// Versions of what wrote it.
	Version    string `json:"version"`
	Kubernetes string `json:"kubernetes"`
	// Revision is the last one of etcd, Records how many it keeps.
	Revision int64 `json:"revision"`
	Records  int   `json:"records"`
	// Files are the members that follow, in their order.
	Files []File `json:"files"`
}

// File is one member of a snapshot.
type File struct {
	Path   string `json:"path"`
	Mode   uint32 `json:"mode"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Size is that of all files together.
func (m *Manifest) Size() int64 {
	var n int64
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// Source is a file to save: Data, or what is at From.
type Source struct {
	Path string
	Mode fs.FileMode
	Data []byte
	From string
}

func (s *Source) open() (io.ReadCloser, error) {
	if s.From == "" {
		return io.NopCloser(bytes.NewReader(s.Data)), nil
	}
	return os.Open(s.From)
}

// describe reads the source once for its size and checksum.
func (s *Source) describe() (f File, err error) {
	r, err := s.open()
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	h := sha256.New()
	n, err := io.Copy(h, r)
	return File{Path: s.Path, Mode: uint32(s.Mode.Perm()), Size: n, SHA256: hex.EncodeToString(h.Sum(nil))}, err
}

// write writes a snapshot of the sources. It completes m.
func write(w io.Writer, m *Manifest, sources []Source, compress bool) error {
	m.Kind, m.Format, m.Files = kind, format, nil
	for i := range sources {
		f, err := sources[i].describe()
		if err != nil {
			return err
		}
		if !validPath(f.Path) {
			return fmt.Errorf("%q cannot be in a snapshot", f.Path)
		}
		m.Files = append(m.Files, f)
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	out := io.WriteCloser(nopCloser{w})
	if compress {
		if out, err = zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)); err != nil {
			return err
		}
	}
	tw := tar.NewWriter(out)
	sum := sha256.Sum256(text)
	head := []Source{{Path: manifestName, Mode: 0o600, Data: text},
		{Path: sumName, Mode: 0o600, Data: []byte(hex.EncodeToString(sum[:]) + "\n")}}
	for _, s := range append(head, sources...) {
		if err := s.writeTo(tw, m.Created); err != nil {
			return errors.Join(fmt.Errorf("saving %s: %w", s.Path, err), out.Close())
		}
	}
	return errors.Join(tw.Close(), out.Close())
}

func (s *Source) writeTo(tw *tar.Writer, at time.Time) (err error) {
	r, err := s.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	size := int64(len(s.Data))
	if f, ok := r.(*os.File); ok {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		size = info.Size()
	}
	if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: s.Path, Mode: int64(s.Mode.Perm()), Size: size,
		ModTime: at, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = io.Copy(tw, r)
	return err
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// validPath reports whether a member may have this path: it stays below the
// directory that it is restored to.
func validPath(p string) bool {
	if p == Database {
		return true
	}
	rest, ok := strings.CutPrefix(p, ServerPrefix)
	return ok && filepath.IsLocal(rest) && filepath.Clean(rest) == rest && rest != "."
}

// reader is an archive that is being read.
type reader struct {
	*tar.Reader
	raw   io.Reader // behind the archive's end, too
	close func()
}

// open tells the two forms apart.
func open(r io.Reader) (*reader, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	magic, err := b.Peek(4)
	if err != nil {
		return nil, fmt.Errorf("%w: it has fewer than 4 bytes", ErrForeign)
	}
	if !bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		return &reader{Reader: tar.NewReader(b), raw: b, close: func() {}}, nil
	}
	z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return &reader{Reader: tar.NewReader(z), raw: z, close: z.Close}, nil
}

// ReadManifest reads no more than the manifest.
func ReadManifest(r io.Reader) (*Manifest, error) {
	a, err := open(r)
	if err != nil {
		return nil, err
	}
	defer a.close()
	return a.manifest()
}

func (a *reader) manifest() (*Manifest, error) {
	h, err := a.Next()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForeign, err)
	}
	if h.Name != manifestName || h.Size > maxManifest {
		return nil, fmt.Errorf("%w: it begins with %q", ErrForeign, h.Name)
	}
	text, err := io.ReadAll(a)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if h, err = a.Next(); err != nil || h.Name != sumName || h.Size > 2*sha256.Size+1 {
		return nil, fmt.Errorf("%w: its manifest has no checksum", ErrDamaged)
	}
	want, err := io.ReadAll(a)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != strings.TrimSpace(string(want)) {
		return nil, fmt.Errorf("%w: its manifest has another checksum", ErrDamaged)
	}
	m := &Manifest{}
	if err := json.Unmarshal(text, m); err != nil || m.Kind != kind {
		return nil, ErrForeign
	}
	if m.Format != format {
		return nil, fmt.Errorf("%w: %d, written by a4s %s", ErrFormat, m.Format, m.Version)
	}
	return m, nil
}

// Read reads a whole snapshot and calls visit, which may be nil, with each
// file. What visit does not read is read for it. A file is complete and right
// when Read goes on to the next one or returns nil.
func Read(r io.Reader, visit func(File, io.Reader) error) (*Manifest, error) {
	a, err := open(r)
	if err != nil {
		return nil, err
	}
	defer a.close()
	m, err := a.manifest()
	if err != nil {
		return nil, err
	}
	for _, f := range m.Files {
		if err := a.file(f, visit); err != nil {
			return nil, err
		}
	}
	if h, err := a.Next(); err == nil {
		return nil, fmt.Errorf("%w: %q is not in its manifest", ErrDamaged, h.Name)
	} else if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	// The checksum of zstd is behind the last byte.
	if _, err := io.Copy(io.Discard, a.raw); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return m, nil
}

func (a *reader) file(f File, visit func(File, io.Reader) error) error {
	h, err := a.Next()
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s: %w", ErrDamaged, f.Path, err)
	case h.Name != f.Path || h.Size != f.Size || h.Typeflag != tar.TypeReg || !validPath(f.Path):
		return fmt.Errorf("%w: it has %q instead of %q", ErrDamaged, h.Name, f.Path)
	}
	sum := sha256.New()
	body := io.TeeReader(a, sum)
	if visit != nil {
		if err := visit(f, body); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, f.Path, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%w: %s has another checksum", ErrDamaged, f.Path)
	}
	return nil
}
