package objectstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/cmd"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/datastore/snapshots/archive"
	"github.com/a4s-io/a4s/server/datastore/snapshots/bucketof"
	"github.com/a4s-io/a4s/tests/objectstore"
)

// machine is one with a configuration file, on which commands run.
type machine struct {
	config string
	dir    archive.Dir
	// path is that of the file that the last restore was given.
	path string
}

func newMachine(t *testing.T, server *objectstore.Server, folder string) *machine {
	t.Helper()
	data := t.TempDir()
	m := &machine{config: filepath.Join(data, "config.yaml"), dir: archive.Dir(filepath.Join(data, "snapshots"))}
	s := server.Settings(folder)
	text := fmt.Sprintf("data-dir: %s\nnode-name: n\netcd-snapshot-retention: 3\netcd-s3: true\n"+
		"etcd-s3-endpoint: %s\netcd-s3-endpoint-ca: %s\n"+
		"etcd-s3-access-key: %s\netcd-s3-secret-key: %s\netcd-s3-bucket: %s\netcd-s3-folder: %s\n"+
		"etcd-s3-retention: 1\n",
		data, s.Endpoint, s.EndpointCA, s.AccessKey, s.SecretKey, s.Bucket, s.Folder)
	if err := os.WriteFile(m.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machine) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	app := cmd.NewApp(cmd.Modes{
		SnapshotStore: bucketof.Settings,
		SaveSnapshot: func(_ context.Context, s *cmd.SnapshotSave) (*archive.Entry, error) {
			return take(t, s.Dir, s.Name, 100), nil
		},
		RestoreSnapshot: func(_ context.Context, r *cmd.SnapshotRestore) (*cmd.SnapshotRestored, error) {
			f, err := os.Open(r.Path)
			if err != nil {
				return nil, err
			}
			defer f.Close() //nolint:errcheck // read only
			manifest, err := archive.Read(f, nil)
			m.path = r.Path
			return &cmd.SnapshotRestored{Manifest: manifest}, err
		},
	})
	app.Stdout, app.Stderr = &out, &out
	err := app.RunContext(t.Context(),
		append([]string{"a4s", "etcd-snapshot", args[0], "--config", m.config}, args[1:]...))
	text := out.String()
	if err != nil {
		text += err.Error()
	}
	if strings.Contains(text, "s3cret") {
		t.Errorf("%v prints the secret: %s", args, text)
	}
	return out.String(), err
}

func (m *machine) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := m.run(t, args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return out
}

func (m *machine) left(t *testing.T) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(string(m.dir), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCommandsWorkInBothPlaces(t *testing.T) {
	server := objectstore.Start(t, program)
	m := newMachine(t, server, "f")
	location := "s3://" + objectstore.Bucket + "/f"
	save := func() string {
		lines := strings.Fields(m.must(t, "save"))
		if len(lines) != 2 || lines[1] != location+"/"+filepath.Base(lines[0]) {
			t.Fatalf("saved as %v", lines)
		}
		return filepath.Base(lines[0])
	}
	first, second := save(), save()

	if out := m.must(t, "list"); !strings.Contains(out, "LOCATION") || strings.Count(out, first) != 2 ||
		strings.Count(out, location) != 2 {
		t.Errorf("listed\n%s", out)
	}
	list := entries(t, m.must(t, "list", "-o", "json"))
	if len(list) != 4 || list[0].Location != "local" || list[2].Location != location ||
		list[2].Path != location+"/"+first || list[2].Manifest.Revision != 42 {
		t.Errorf("listed %+v", list)
	}
	if out := m.must(t, "list", "--etcd-s3=false"); strings.Contains(out, location) {
		t.Errorf("listed without S3\n%s", out)
	}

	// What is kept is counted in each place for itself.
	if out := m.must(t, "prune"); out != "deleted "+location+"/"+first+"\n" {
		t.Errorf("pruned %q", out)
	}

	// A restore gets the file from where it was asked to.
	m.must(t, "restore", location+"/"+second, "--etcd-s3=false")
	if m.path == filepath.Join(string(m.dir), second) || filepath.Base(m.path) != second {
		t.Errorf("restored %s", m.path)
	}
	if _, err := os.Stat(m.path); !os.IsNotExist(err) {
		t.Errorf("the download is still there: %v", err)
	}
	m.must(t, "restore", second)
	m.must(t, "restore", first, "--etcd-s3=false")
	if m.path != filepath.Join(string(m.dir), first) {
		t.Errorf("restored %s instead of the local file", m.path)
	}
	m.left(t)

	// What is wrong in the bucket is refused before anything is touched.
	m.path = ""
	object := server.Object(filepath.Join("f", second))
	whole, err := os.ReadFile(object)
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), whole...)
	flipped[bytes.Index(flipped, []byte("xxxx"))] ^= 1
	for name, data := range map[string][]byte{"a wrong bit": flipped, "half of it": whole[:len(whole)/2],
		"something else": []byte("hello world")} {
		if err := os.WriteFile(object, data, 0o600); err != nil {
			t.Fatal(err)
		}
		var in *problem.Input
		if _, err := m.run(t, "restore", second); !errors.As(err, &in) || in.Value != location+"/"+second ||
			m.path != "" || !strings.Contains(err.Error(), "--etcd-s3=false") {
			t.Errorf("restoring %s: %v", name, err)
		}
		m.left(t)
	}

	if out := m.must(t, "delete", second); out != "deleted "+second+"\ndeleted "+location+"/"+second+"\n" {
		t.Errorf("deleted %q", out)
	}
	if out := m.must(t, "delete", first); out != "deleted "+first+"\n" {
		t.Errorf("deleted %q", out)
	}
	for _, bad := range []string{"delete " + first, "restore " + first, "restore s3://b", "restore s3:///f/x.tar",
		"restore s3://b/f/", "restore " + location + "/absent.tar", "prune --etcd-s3-retention 0",
		"save --s3-timeout x"} {
		var in *problem.Input
		if _, err := m.run(t, strings.Fields(bad)...); !errors.As(err, &in) || m.path != "" {
			t.Errorf("%s: %v, want a problem of the input", bad, err)
		}
	}
}

func TestAFailedCopyKeepsTheFile(t *testing.T) {
	server := objectstore.Start(t, program)
	m := newMachine(t, server, "f")
	out, err := m.run(t, "save", "--s3-bucket", "none")
	if problem.ExitCode(err) != 1 || !strings.Contains(err.Error(), "--etcd-s3-bucket") ||
		!strings.Contains(err.Error(), "is kept as "+strings.TrimSpace(out)) {
		t.Fatalf("%q, %v", out, err)
	}
	if err := archive.Verify(strings.TrimSpace(out)); err != nil {
		t.Error(err)
	}
	// What is here is listed even if there is nothing to be had from there.
	out, err = m.run(t, "list", "--etcd-s3-access-key=nobody")
	if err == nil || !strings.Contains(out, "on-demand-n-") {
		t.Errorf("%v\n%s", err, out)
	}
}
