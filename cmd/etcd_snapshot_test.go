package cmd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/datastore/snapshots/archive"
)

// runSnapshots runs a command line on a directory of snapshots, with modes
// that record what they are asked for.
func runSnapshots(
	t *testing.T, args ...string,
) (save *SnapshotSave, restore *SnapshotRestore, stdout string, err error) {
	t.Helper()
	var out strings.Builder
	app := NewApp(Modes{
		SaveSnapshot: func(_ context.Context, s *SnapshotSave) (*archive.Entry, error) {
			save = s
			return &archive.Entry{Path: "/saved"}, nil
		},
		RestoreSnapshot: func(_ context.Context, r *SnapshotRestore) (*SnapshotRestored, error) {
			restore = r
			return &SnapshotRestored{Manifest: &archive.Manifest{Node: "n"}, Kept: "/kept"}, nil
		},
	})
	app.Stdout, app.Stderr = &out, &out
	err = app.RunContext(t.Context(), append([]string{"a4s", "etcd-snapshot"}, args...))
	return save, restore, out.String(), err
}

func TestEtcdSnapshotCommands(t *testing.T) {
	config := noConfig(t)
	data := t.TempDir()
	dir := archive.Dir(filepath.Join(data, "snapshots"))
	if err := os.WriteFile(config, []byte("data-dir: "+data+
		"\nnode-name: n\netcd-snapshot-compress: true\netcd-snapshot-retention: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	take := func() string {
		e, err := dir.Save(archive.Request{Name: "on-demand", Node: "n",
			Fill: func(string) (*archive.Manifest, []archive.Source, error) {
				return &archive.Manifest{Revision: 42},
					[]archive.Source{{Path: "server/token", Data: []byte(time.Now().String())}}, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		return e.Name
	}
	first, second := take(), take()

	save, _, out, err := runSnapshots(t, "save", "--name", "before")
	if err != nil || *save != (SnapshotSave{DataDir: data, Dir: dir, Name: "before", Node: "n", Compress: true}) ||
		out != "/saved\n" {
		t.Errorf("save: %+v, %q, %v", save, out, err)
	}
	if save, _, _, err := runSnapshots(t, "save", "--dir", "/elsewhere", "--snapshot-compress=false"); err != nil ||
		save.Dir != "/elsewhere" || save.Compress || save.Name != "on-demand" {
		t.Errorf("save with flags: %+v, %v", save, err)
	}
	if _, _, out, err := runSnapshots(t, "ls"); err != nil || !strings.Contains(out, first) ||
		!strings.Contains(out, "42") {
		t.Errorf("list: %v\n%s", err, out)
	}
	if _, _, out, err := runSnapshots(t, "list", "-o", "json"); err != nil ||
		!strings.Contains(out, `"revision": 42`) {
		t.Errorf("list as JSON: %v\n%s", err, out)
	}
	if _, restore, out, err := runSnapshots(t, "restore", first, "--other-cluster"); err != nil ||
		*restore != (SnapshotRestore{DataDir: data, Path: filepath.Join(string(dir), first), OtherCluster: true}) ||
		!strings.Contains(out, "/kept") {
		t.Errorf("restore: %+v, %v\n%s", restore, err, out)
	}
	if _, _, out, err := runSnapshots(t, "prune"); err != nil || out != "deleted "+first+"\n" {
		t.Errorf("prune: %q, %v", out, err)
	}
	if _, _, out, err := runSnapshots(t, "delete", second); err != nil || out != "deleted "+second+"\n" {
		t.Errorf("delete: %q, %v", out, err)
	}
	for _, bad := range []string{"restore", "restore " + first, "restore a b", "delete", "delete ../x", "save x",
		"save --name a/b", "list -o yaml", "prune --snapshot-retention 0"} {
		var in *problem.Input
		if save, restore, _, err := runSnapshots(t, strings.Fields(bad)...); !errors.As(err, &in) ||
			save != nil || restore != nil {
			t.Errorf("%s: %v, want a problem of the input", bad, err)
		}
	}
}
