package kine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/metadata"

	"github.com/a4s-io/a4s/embedded/kine"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/dsn"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/tests/databases"
)

const deadline = time.Minute

// eachDatabase runs a test on every kind of database. again makes the options
// of a server of the same database.
func eachDatabase(t *testing.T, test func(t *testing.T, again func() kine.Options)) {
	eachSQL(t, test)
	t.Run("NATS", func(t *testing.T) {
		dir, endpoint := t.TempDir(), databases.StartNATS(t, "127.0.0.1")
		test(t, func() kine.Options { return options(t, dir, endpoint) })
	})
}

func eachSQL(t *testing.T, test func(t *testing.T, again func() kine.Options)) {
	t.Run("SQLite", func(t *testing.T) {
		dir := t.TempDir()
		test(t, func() kine.Options { return options(t, dir, "sqlite://"+dir+"/x.db") })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		dir, p := t.TempDir(), databases.StartPostgreSQL(t)
		test(t, func() kine.Options { return options(t, dir, p.Endpoint("cluster")) })
	})
	t.Run("MariaDB", func(t *testing.T) {
		dir, endpoint := t.TempDir(), databases.StartMariaDB(t)
		test(t, func() kine.Options { return options(t, dir, endpoint) })
	})
}

func options(t *testing.T, dir, endpoint string) kine.Options {
	t.Helper()
	e, err := dsn.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return kine.Options{Endpoint: e, Path: e.Path, Socket: filepath.Join(dir, "s"),
		Log: logrus.NewEntry(logrus.StandardLogger())}
}

// start runs a server until the test ends or stop is called.
func start(t *testing.T, o kine.Options) (client *clientv3.Client, stop func()) {
	t.Helper()
	s, err := kine.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	group := component.NewGroup(o.Log)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if err := group.StartAndWait(ctx, s.Component()); err != nil {
		t.Fatal(err)
	}
	client, err = clientv3.New(clientv3.Config{Endpoints: []string{s.URL()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		_ = client.Close()
		if err := group.Stop(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return client, stop
}

// What the rest of a4s asks of its datastore, besides what the API server does.
func TestWhatEtcdCanDo(t *testing.T) {
	eachDatabase(t, func(t *testing.T, again func() kine.Options) {
		client, stop := start(t, again())
		ctx := t.Context()
		key := func(i int) string { return fmt.Sprintf("/registry/configmaps/a/default/%04d", i) }
		const n = 1200 // more than two pages of a deletion
		var first int64
		for i := range n {
			answer, err := client.Put(ctx, key(i), "v")
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				first = answer.Header.Revision
			}
		}
		for _, other := range []string{"/registry/configmaps/a", "/registry/configmaps/ab/default/x",
			"/registry/pods/a/default/x"} {
			if _, err := client.Put(ctx, other, "v"); err != nil {
				t.Fatal(err)
			}
		}

		prefix := clientv3.WithPrefix()
		got, err := client.Txn(ctx).Then(
			clientv3.OpGet("/registry/configmaps/a/", prefix, clientv3.WithCountOnly()),
			clientv3.OpGet("/registry/pods/a/", prefix, clientv3.WithKeysOnly(), clientv3.WithLimit(5)),
			clientv3.OpGet("/registry/nothing/", prefix, clientv3.WithKeysOnly()),
		).Commit()
		if err != nil {
			t.Fatal("several reads at once: ", err)
		}
		counts := []int64{}
		for _, r := range got.Responses {
			counts = append(counts, r.GetResponseRange().Count)
		}
		if fmt.Sprint(counts) != fmt.Sprint([]int64{n, 1, 0}) {
			t.Errorf("%v keys, want %d, 1, 0", counts, n)
		}

		page, err := client.Get(ctx, "/registry/configmaps/a/", prefix, clientv3.WithKeysOnly(),
			clientv3.WithLimit(500))
		if err != nil || len(page.Kvs) != 500 || !page.More || page.Count != n || len(page.Kvs[0].Value) > 0 {
			t.Fatalf("the first page has %d keys of %d, more: %t, %v", len(page.Kvs), page.Count, page.More, err)
		}
		next := string(page.Kvs[499].Key) + "\x00"
		rest, err := client.Get(ctx, next, clientv3.WithRange(clientv3.GetPrefixRangeEnd("/registry/configmaps/a/")),
			clientv3.WithKeysOnly(), clientv3.WithRev(page.Header.Revision))
		if err != nil || len(rest.Kvs) != n-500 || string(rest.Kvs[0].Key) != key(500) {
			t.Fatalf("the other pages have %d keys, %v", len(rest.Kvs), err)
		}

		// A watch from the past sees everything since, in order, and progress.
		watching, cancel := context.WithTimeout(ctx, deadline)
		defer cancel()
		events := client.Watch(watching, "/registry/configmaps/a/", prefix, clientv3.WithRev(first),
			clientv3.WithPrevKV(), clientv3.WithProgressNotify())
		deleted, err := client.Delete(ctx, "/registry/configmaps/a/", prefix)
		if err != nil || deleted.Deleted != n {
			t.Fatalf("%d keys of a prefix were deleted, %v", deleted.Deleted, err)
		}
		var puts, deletes int
		var last int64
		for puts+deletes < 2*n {
			answer := <-events
			if answer.Err() != nil || watching.Err() != nil {
				t.Fatalf("after %d and %d events: %v, %v", puts, deletes, answer.Err(), watching.Err())
			}
			for _, e := range answer.Events {
				if e.Kv.ModRevision <= last {
					t.Fatalf("revision %d after %d", e.Kv.ModRevision, last)
				}
				last = e.Kv.ModRevision
				switch {
				case e.Type == mvccpb.DELETE && e.PrevKv != nil:
					deletes++
				case e.Type == mvccpb.PUT:
					puts++
				}
			}
		}
		// In NATS the mark of a deletion has a revision of its own, up to which kine
		// counts and of which no watch hears, until the next change.
		if again().Endpoint.Kind == dsn.NATS {
			if _, err := client.Put(ctx, "/registry/later", "v"); err != nil {
				t.Fatal(err)
			}
		}
		if err := client.RequestProgress(watching); err != nil {
			t.Fatal(err)
		}
		for {
			answer := <-events
			if watching.Err() != nil {
				t.Fatal("the watch has made no progress")
			}
			if answer.IsProgressNotify() && answer.Header.Revision >= last {
				break
			}
		}

		one, err := client.Delete(ctx, "/registry/configmaps/a")
		if err != nil || one.Deleted != 1 {
			t.Errorf("%d keys deleted, %v", one.Deleted, err)
		}
		if none, err := client.Delete(ctx, "/registry/configmaps/a"); err != nil || none.Deleted != 0 {
			t.Errorf("a key that is gone: %d deleted, %v", none.Deleted, err)
		}

		// With a lease, as the API server keeps events.
		lease, err := client.Grant(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Put(ctx, "/registry/events/a", "v", clientv3.WithLease(lease.ID)); err != nil {
			t.Fatal(err)
		}
		await(t, "the end of a lease", func() bool {
			left, err := client.Get(ctx, "/registry/events/a")
			return err == nil && len(left.Kvs) == 0
		})

		stop()
		client, _ = start(t, again())
		if left, err := client.Get(ctx, "/registry/configmaps/ab/default/x"); err != nil || len(left.Kvs) != 1 ||
			string(left.Kvs[0].Value) != "v" {
			t.Errorf("after a restart: %v, %v", left, err)
		}
	})
}

// Consistent lists of the API server begin with the revision of a key that is
// not there. With NATS kine reads its index without the lock that its writer
// holds, and there is nothing to be done about it from here.
func TestAnswersKnowOfAcknowledgedWrites(t *testing.T) {
	eachSQL(t, func(t *testing.T, again func() kine.Options) {
		client, _ := start(t, again())
		ctx := t.Context()
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				for i := range 50 {
					written, err := client.Put(ctx, fmt.Sprintf("/registry/x/%d/%d", w, i), "v")
					if err != nil {
						t.Error(err)
						return
					}
					last := written.Header.Revision
					nothing, err := client.Get(ctx, "/registry/nothing")
					if err != nil || nothing.Header.Revision < last {
						t.Errorf("revision %d was acknowledged, then an answer is of %d, %v", last,
							nothing.Header.Revision, err)
						return
					}
					if _, err := client.Get(ctx, "/registry/nothing/", clientv3.WithPrefix(),
						clientv3.WithRev(last)); err != nil {
						t.Errorf("a list of nothing at revision %d: %v", last, err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	end := time.Now().Add(deadline)
	for !done() {
		if time.Now().After(end) {
			t.Fatal("waiting for ", what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// sizeOf is that of a SQLite file and of its log.
func sizeOf(t *testing.T, path string) (size int64) {
	t.Helper()
	for _, file := range []string{path, path + "-wal"} {
		info, err := os.Stat(file)
		if err == nil {
			size += info.Size()
		}
	}
	return size
}

func TestSQLiteShrinksAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	o := options(t, t.TempDir(), "sqlite://"+path)
	o.Retain, o.ReclaimInterval = 10, 50*time.Millisecond
	client, stop := start(t, o)
	value := string(bytes.Repeat([]byte("x"), 100<<10))
	var last, largest int64
	for round := range 3 {
		for i := range 100 {
			answer, err := client.Put(t.Context(), fmt.Sprintf("/registry/x/%d", i), value)
			if err != nil {
				t.Fatal(err)
			}
			last = answer.Header.Revision
		}
		largest = max(largest, sizeOf(t, path))
		if largest < 9<<20 {
			t.Fatalf("round %d: the file has %d bytes only: this tests nothing", round, largest)
		}
		if _, err := client.Delete(t.Context(), "/registry/x/", clientv3.WithPrefix()); err != nil {
			t.Fatal(err)
		}
		// As many revisions of something small as no compaction takes.
		for range 20 {
			answer, err := client.Put(t.Context(), "/registry/small", "v")
			if err != nil {
				t.Fatal(err)
			}
			last = answer.Header.Revision
		}
		if _, err := client.Compact(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		await(t, "a small file", func() bool { return sizeOf(t, path) < 4<<20 })
	}
	if _, err := client.Get(t.Context(), "/registry/small", clientv3.WithRev(5)); !errors.Is(err,
		rpctypes.ErrCompacted) {
		t.Errorf("reading what was compacted: %v", err)
	}
	t.Logf("the file had up to %d bytes, and has %d", largest, sizeOf(t, path))
	stop()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestWhatCannotBeUsedIsNamed(t *testing.T) {
	p := databases.StartPostgreSQL(t)
	damaged := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(damaged, bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	const secret = "hush.hush"
	for endpoint, want := range map[string][]string{
		"sqlite://" + damaged: {damaged, "not a database"},
		strings.Replace(p.Endpoint("cluster"), databases.Password, secret, 1): {"--datastore-endpoint",
			"password authentication failed", "set user and password"},
		"postgres://a4s:" + secret + "@127.0.0.1:1/cluster": {"--datastore-endpoint", "127.0.0.1:1",
			"connection refused", "start the database"},
		"mysql://a4s:" + secret + "@tcp(127.0.0.1:1)/cluster": {"--datastore-endpoint", "127.0.0.1:1",
			"connection refused", "start the database"},
		"nats://a4s:" + secret + "@127.0.0.1:1": {"--datastore-endpoint", "127.0.0.1:1", "connection refused",
			"start the database"},
	} {
		s, err := kine.New(options(t, t.TempDir(), endpoint))
		if err != nil {
			t.Fatal(err)
		}
		err = s.Check(t.Context())
		var p *problem.Precondition
		if !errors.As(err, &p) {
			t.Errorf("%s: %v", endpoint, err)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q in it", endpoint, err, part)
			}
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the password is in the error: %v", err)
		}
	}
}

// A watch that is told how far it has come learned of every change up to
// there: the API server answers lists from its cache by that.
func TestProgressComesAfterTheChanges(t *testing.T) {
	dir := t.TempDir()
	client, _ := start(t, options(t, dir, "sqlite://"+dir+"/x.db"))
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	const watches, changes = 50, 600
	failed := make(chan error, watches)
	var done sync.WaitGroup
	for i := range watches {
		// Each has a stream of its own, as each resource of the API server has.
		ctx := metadata.AppendToOutgoingContext(ctx, "stream", fmt.Sprint(i))
		go func() {
			for ctx.Err() == nil {
				_ = client.RequestProgress(ctx)
				time.Sleep(5 * time.Millisecond)
			}
		}()
		events := client.Watch(ctx, "/registry/x/", clientv3.WithPrefix(), clientv3.WithProgressNotify(),
			clientv3.WithCreatedNotify())
		if answer := <-events; !answer.Created {
			t.Fatalf("%+v", answer)
		}
		done.Go(func() {
			var told int64
			for seen := 0; seen < changes; {
				answer, ok := <-events
				if !ok || answer.Err() != nil {
					failed <- fmt.Errorf("after %d changes: %w", seen, answer.Err())
					return
				}
				for _, e := range answer.Events {
					if seen++; e.Kv.ModRevision <= told {
						failed <- fmt.Errorf("revision %d comes after the progress to %d", e.Kv.ModRevision, told)
						return
					}
				}
				if answer.IsProgressNotify() {
					told = max(told, answer.Header.Revision)
				}
			}
		})
	}
	for i := range changes {
		if _, err := client.Put(ctx, "/registry/x/"+fmt.Sprint(i), "v"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	done.Wait()
	select {
	case err := <-failed:
		t.Fatal(err)
	default:
	}
}

// A copy of a stopped server's file has what was written last, also of one that was
// killed, whose log was not taken over.
func TestCopyOfSQLite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.db")
	o := options(t, dir, "sqlite://"+path)
	s, err := kine.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if copied, err := s.CopySQLite(t.Context(), path+".copy"); copied || err != nil {
		t.Errorf("there is nothing to copy: %t, %v", copied, err)
	}
	client, stop := start(t, o)
	if _, err := client.Put(t.Context(), "/registry/x", "first"); err != nil {
		t.Fatal(err)
	}
	// As a kill leaves it: the file and the log beside it.
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "killed.db"+suffix), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Put(t.Context(), "/registry/x", "second"); err != nil {
		t.Fatal(err)
	}
	stop()
	for name, want := range map[string]string{"x.db": "second", "killed.db": "first"} {
		o := options(t, t.TempDir(), "sqlite://"+filepath.Join(dir, name))
		s, err := kine.New(o)
		if err != nil {
			t.Fatal(err)
		}
		saved := filepath.Join(t.TempDir(), "saved.db")
		if copied, err := s.CopySQLite(t.Context(), saved); !copied || err != nil {
			t.Fatalf("%s: %t, %v", name, copied, err)
		}
		if info, err := os.Stat(saved); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		if _, err := s.CopySQLite(t.Context(), saved); err == nil {
			t.Error("a file that is there was written over")
		}
		client, stop := start(t, options(t, t.TempDir(), "sqlite://"+saved))
		if got, err := client.Get(t.Context(), "/registry/x"); err != nil || len(got.Kvs) != 1 ||
			string(got.Kvs[0].Value) != want {
			t.Errorf("%s: %v, %v, want %s", name, got, err, want)
		}
		stop()
	}
}
