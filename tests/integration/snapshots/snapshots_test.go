// Package snapshots tests saving and restoring with a real datastore in the
// test process. It listens on etcd's ports on loopback.
package snapshots

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/sirupsen/logrus"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/a4s-io/a4s/embedded/etcd"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/datastore/restored"
	"github.com/a4s-io/a4s/server/datastore/snapshots"
	"github.com/a4s-io/a4s/server/datastore/snapshots/archive"
	"github.com/a4s-io/a4s/tests/objectstore"
)

const soon = 4 * time.Minute

// controlPlane is a server directory and, while it runs, its datastore.
type controlPlane struct {
	dataDir string
	files   *pki.Files
	client  *clientv3.Client
	server  *etcd.Server
	stop    func()
}

func newControlPlane(t *testing.T) *controlPlane {
	t.Helper()
	c := &controlPlane{dataDir: t.TempDir()}
	c.files = pki.FilesIn(filepath.Join(c.dataDir, "server", "tls"))
	if err := os.MkdirAll(filepath.Join(c.dataDir, "server", "cred"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.Ensure(c.files.Dir, pki.Options{SANs: []string{"127.0.0.1"}}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"token": "the token", "cred/encryption.yaml": "the key"} {
		if err := os.WriteFile(filepath.Join(c.dataDir, "server", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// start runs the datastore until stop or the test's end.
func (c *controlPlane) start(t *testing.T) {
	t.Helper()
	f := c.files
	server, err := etcd.New(etcd.Options{
		Dir: filepath.Join(c.dataDir, "server", "db", "etcd"), Name: etcd.LocalMember,
		CertFile: f.EtcdServer.Cert, KeyFile: f.EtcdServer.Key, TrustedCAFile: f.EtcdServerCA.Cert,
		PeerCertFile: f.EtcdPeer.Cert, PeerKeyFile: f.EtcdPeer.Key, PeerTrustedCAFile: f.EtcdPeerCA.Cert,
		Zap: zap.NewNop(), Log: logrus.WithField("component", "etcd"),
	})
	if err != nil {
		t.Fatal(err)
	}
	c.server = server
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	if err := server.Check(ctx); err != nil {
		t.Fatal(err)
	}
	group := component.NewGroup(logrus.NewEntry(logrus.StandardLogger()))
	if err := group.StartAndWait(ctx, server.Component()); err != nil {
		t.Fatal(err)
	}
	tls, err := transport.TLSInfo{CertFile: f.EtcdClient.Cert, KeyFile: f.EtcdClient.Key,
		TrustedCAFile: f.EtcdServerCA.Cert}.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	if c.client, err = clientv3.New(clientv3.Config{Endpoints: []string{server.ClientURL()}, TLS: tls,
		Logger: zap.NewNop()}); err != nil {
		t.Fatal(err)
	}
	stopped := false
	c.stop = func() {
		if stopped {
			return
		}
		stopped = true
		_ = c.client.Close()
		if err := group.Stop(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { c.stop() })
}

func (c *controlPlane) options() snapshots.Options {
	return snapshots.Options{
		ServerDir: filepath.Join(c.dataDir, "server"), Dir: archive.Dir(filepath.Join(c.dataDir, "snapshots")),
		Name: "test", Node: "n",
		URL: fmt.Sprintf("https://127.0.0.1:%d", etcd.ClientPort), Zap: zap.NewNop(),
	}
}

func (c *controlPlane) restore(path string) (*snapshots.Restored, error) {
	return snapshots.Restore(snapshots.RestoreOptions{Path: path, DataDir: c.dataDir,
		Member: etcd.LocalMember, Zap: zap.NewNop()})
}

func (c *controlPlane) put(t *testing.T, key, value string) int64 {
	t.Helper()
	r, err := c.client.Put(t.Context(), key, value)
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}

// tree is what is in a directory, to see that nothing changes.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			out[path] = "directory"
			return err
		}
		data, err := os.ReadFile(path)
		out[path] = fmt.Sprintf("%x", sha256.Sum256(data))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func same(a, b map[string]string) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

func TestRestoreBringsEverythingBackAsANewCluster(t *testing.T) {
	for _, compress := range []bool{false, true} {
		t.Run(fmt.Sprintf("compress=%v", compress), func(t *testing.T) {
			c := newControlPlane(t)
			c.start(t)
			first := c.put(t, "/kept", "old")
			c.put(t, "/deleted", "there")
			o := c.options()
			o.Compress = compress
			e, err := snapshots.Save(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if e.Manifest.Revision != first+1 || e.Manifest.Records != 2 ||
				strings.HasSuffix(e.Name, ".zst") != compress {
				t.Errorf("%s: %+v, want revision %d and 2 records", e.Name, e.Manifest, first+1)
			}

			c.put(t, "/kept", "new")
			if _, err := c.client.Delete(t.Context(), "/deleted"); err != nil {
				t.Fatal(err)
			}
			last := c.put(t, "/later", "gone after the restore")
			before, err := c.client.MemberList(t.Context())
			if err != nil {
				t.Fatal(err)
			}

			// While it runs nothing may be replaced below it.
			var p *problem.Precondition
			if _, err := c.restore(e.Path); !errors.As(err, &p) {
				t.Errorf("restoring below a running datastore: %v, want a precondition", err)
			}
			c.stop()
			if err := os.WriteFile(filepath.Join(o.ServerDir, "token"), []byte("changed"), 0o600); err != nil {
				t.Fatal(err)
			}

			// Which partitions the cluster has is no state of the datastore.
			younger := filepath.Join(o.ServerDir, "partition-directory.json")
			if err := os.WriteFile(younger, []byte("younger"), 0o600); err != nil {
				t.Fatal(err)
			}
			if r, err := restored.Read(o.ServerDir); err != nil || r.At != "" {
				t.Errorf("before the restore: %+v, %v", r, err)
			}

			done, err := c.restore(e.Path)
			if err != nil {
				t.Fatal(err)
			}
			if r, err := restored.Read(o.ServerDir); err != nil || r.At == "" || !r.Shares {
				t.Errorf("no server could tell that this is restored: %+v, %v", r, err)
			}
			for name, want := range map[string]string{
				filepath.Join(o.ServerDir, "token"):                "the token",
				filepath.Join(o.ServerDir, "cred/encryption.yaml"): "the key",
				filepath.Join(done.Kept, "token"):                  "changed",
				younger:                                            "younger",
			} {
				if got, err := os.ReadFile(name); err != nil || string(got) != want {
					t.Errorf("%s is %q, %v; want %q", name, got, err, want)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(c.dataDir, ".*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}

			c.start(t)
			get, err := c.client.Get(t.Context(), "/", clientv3.WithPrefix())
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, kv := range get.Kvs {
				got[string(kv.Key)] = string(kv.Value)
			}
			if len(got) != 2 || got["/kept"] != "old" || got["/deleted"] != "there" {
				t.Errorf("the datastore has %v", got)
			}
			if get.Header.Revision <= last {
				t.Errorf("revision %d is not above %d, which clients may remember", get.Header.Revision, last)
			}
			if get.Header.ClusterId == before.Header.ClusterId {
				t.Error("the cluster has its old id")
			}
			// Whoever watched before has to list again.
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			w := <-c.client.Watch(ctx, "/", clientv3.WithPrefix(), clientv3.WithRev(last))
			if !errors.Is(w.Err(), rpctypes.ErrCompacted) {
				t.Errorf("a watch from revision %d: %v, want that it was compacted", last, w.Err())
			}
			// So has the same snapshot, restored once more.
			seen := c.put(t, "/between", "x")
			c.stop()
			if _, err := c.restore(e.Path); err != nil {
				t.Fatal(err)
			}
			c.start(t)
			if get, err = c.client.Get(t.Context(), "/kept"); err != nil || get.Header.Revision <= seen {
				t.Errorf("restored again: %v, %v, and clients have seen %d", get, err, seen)
			}
			// And it can be saved and restored again.
			again, err := snapshots.Save(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			c.stop()
			if _, err := c.restore(again.Path); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWhatIsNoGoodSnapshotChangesNothing(t *testing.T) {
	c := newControlPlane(t)
	c.start(t)
	c.put(t, "/k", strings.Repeat("v", 100_000))
	e, err := snapshots.Save(t.Context(), c.options())
	if err != nil {
		t.Fatal(err)
	}
	raw := filepath.Join(t.TempDir(), "raw.db")
	f := c.files
	if _, err := etcd.SaveSnapshot(t.Context(), etcd.Client{URL: c.options().URL, CAFile: f.EtcdServerCA.Cert,
		CertFile: f.EtcdClient.Cert, KeyFile: f.EtcdClient.Key}, raw, zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	c.stop()

	whole, err := os.ReadFile(e.Path)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string, data []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	flipped := append([]byte(nil), whole...)
	flipped[len(flipped)/2] ^= 1
	for name, path := range map[string]string{
		"absent":        filepath.Join(t.TempDir(), "none"),
		"text":          file("t", []byte("not a snapshot at all")),
		"truncated":     file("h", whole[:len(whole)-4096]),
		"one bit wrong": file("f", flipped),
		"bare etcd":     raw,
		"directory":     t.TempDir(),
	} {
		before := tree(t, c.dataDir)
		var in *problem.Input
		if _, err := c.restore(path); !errors.As(err, &in) {
			t.Errorf("%s: %v, want a problem of the input", name, err)
		}
		if !same(before, tree(t, c.dataDir)) {
			t.Errorf("%s: the data directory has changed", name)
		}
	}

	// A good one of another cluster is refused, unless that is meant.
	other := newControlPlane(t)
	before := tree(t, other.dataDir)
	var in *problem.Input
	if _, err := other.restore(e.Path); !errors.As(err, &in) || !strings.Contains(err.Error(), "--other-cluster") {
		t.Errorf("a snapshot of another cluster: %v", err)
	}
	if !same(before, tree(t, other.dataDir)) {
		t.Error("the refused snapshot changed the data directory")
	}
	of := filepath.Join(other.dataDir, "server", "partition-directory.json")
	if err := os.WriteFile(of, []byte("of another cluster"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshots.Restore(snapshots.RestoreOptions{Path: e.Path, DataDir: other.dataDir,
		Member: etcd.LocalMember, OtherCluster: true, Zap: zap.NewNop()}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(of); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the partitions of the other cluster: %v", err)
	}

	// A new machine has nothing that could differ.
	empty := &controlPlane{dataDir: filepath.Join(t.TempDir(), "new"), files: pki.FilesIn("")}
	done, err := empty.restore(e.Path)
	if err != nil || done.Kept != "" {
		t.Fatalf("%+v, %v", done, err)
	}
	empty.files = pki.FilesIn(filepath.Join(empty.dataDir, "server", "tls"))
	empty.start(t)
	if r, err := empty.client.Get(t.Context(), "/k"); err != nil || len(r.Kvs) != 1 {
		t.Errorf("on a new machine: %v, %v", r, err)
	}
}

func TestScheduleSavesAndKeepsTheNewest(t *testing.T) {
	c := newControlPlane(t)
	c.start(t)
	schedule, err := cron.ParseStandard("@every 1s")
	if err != nil {
		t.Fatal(err)
	}
	o := c.options()
	group := component.NewGroup(logrus.NewEntry(logrus.StandardLogger()))
	defer func() {
		if err := group.Stop(); err != nil {
			t.Error(err)
		}
	}()
	group.Start(t.Context(), snapshots.Scheduled(o, schedule, 2, logrus.WithField("component", "snapshots")))
	first := ""
	deadline := time.After(soon)
	for {
		list, err := o.Dir.List()
		if err != nil {
			t.Fatal(err)
		}
		if first == "" && len(list) > 0 {
			first = list[0].Name
		}
		if len(list) == 2 && list[0].Name != first {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("two newer snapshots than %q do not replace it: %v", first, list)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// The schedule goes on while storage elsewhere fails, and copies when it works
// again.
func TestScheduleCopiesToS3(t *testing.T) {
	program, err := objectstore.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server := objectstore.Start(t, program)
	settings := server.Settings("f")
	settings.Bucket = "later"
	store, err := archive.NewBucket(&settings)
	if err != nil {
		t.Fatal(err)
	}
	c := newControlPlane(t)
	c.start(t)
	schedule, err := cron.ParseStandard("@every 1s")
	if err != nil {
		t.Fatal(err)
	}
	results := make(chan error, 100)
	o := c.options()
	o.Store, o.StoreKeep = func(context.Context) (*archive.Bucket, error) { return store, nil }, 2
	o.Observe = func(_ time.Duration, err error) { results <- err }
	group := component.NewGroup(logrus.NewEntry(logrus.StandardLogger()))
	defer func() {
		if err := group.Stop(); err != nil {
			t.Error(err)
		}
	}()
	group.Start(t.Context(), snapshots.Scheduled(o, schedule, 1, logrus.WithField("component", "snapshots")))
	next := func() error {
		select {
		case err := <-results:
			return err
		case <-time.After(soon):
			t.Fatal("no snapshot is taken")
			return nil
		}
	}
	for range 2 {
		var lost *archive.NotCopiedError
		if err := next(); !errors.As(err, &lost) || !strings.Contains(err.Error(), "--etcd-s3-bucket") {
			t.Errorf("without a bucket: %v", err)
		}
		// A newer one may have taken its place already.
		if list, err := o.Dir.List(); err != nil || len(list) == 0 {
			t.Errorf("left here: %v, %v", list, err)
		}
	}
	if err := os.Mkdir(filepath.Join(server.Dir, "later"), 0o755); err != nil {
		t.Fatal(err)
	}
	first := ""
	deadline := time.After(soon)
	for {
		var list []archive.Entry
		if err := next(); err == nil {
			if list, err = store.List(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if first == "" && len(list) > 0 {
			first = list[0].Name
		}
		if len(list) == 2 && list[0].Name != first {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("two newer snapshots than %q do not replace it: %v", first, list)
		default:
		}
	}
}

func TestSaveNeedsARunningServer(t *testing.T) {
	c := newControlPlane(t)
	var p *problem.Precondition
	if _, err := snapshots.Save(t.Context(), c.options()); !errors.As(err, &p) {
		t.Errorf("%v, want a precondition", err)
	}
	if files, _ := filepath.Glob(string(c.options().Dir) + "/*"); len(files) > 0 {
		t.Errorf("left behind: %v", files)
	}
}
