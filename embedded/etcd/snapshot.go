package etcd

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	clientsnapshot "go.etcd.io/etcd/client/v3/snapshot"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/a4s-io/a4s/internal/problem"
)

// leastBump is what is added at least to the last revision of a restored snapshot, which is
// then marked as compacted: it is far above what any client can have seen, so
// that a watch from before is told to list again and none mistakes a new
// revision for an old one. It is what etcd's documentation advises.
const leastBump = 1_000_000_000

// bump is what is added: a snapshot that is restored twice has higher revisions the second
// time than clients have seen since the first, unless there were a million writes a second.
func bump(revision int64, now time.Time) uint64 {
	return uint64(max(leastBump, now.UnixMicro()-revision))
}

// Client says how to reach a member.
type Client struct {
	URL                       string
	CAFile, CertFile, KeyFile string
}

// Facts are what a backend file says of itself.
type Facts struct {
	// Revision is the last one, Records how many revisions of keys are kept.
	Revision int64
	Records  int
}

// SaveSnapshot writes what the member has to a new file at path, with the
// checksum that the member sent, and checks it.
func SaveSnapshot(ctx context.Context, c Client, path string, log *zap.Logger) (Facts, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return Facts{}, fmt.Errorf("address of the datastore: %w", err)
	}
	// The client would wait for a member that is not there.
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return Facts{}, &problem.Precondition{What: "datastore at " + c.URL, Err: err,
			Fix: "start the server of this machine: a snapshot is taken of a running one"}
	}
	_ = conn.Close()
	tls, err := transport.TLSInfo{CertFile: c.CertFile, KeyFile: c.KeyFile, TrustedCAFile: c.CAFile}.ClientConfig()
	if err != nil {
		return Facts{}, &problem.Precondition{What: "certificate of the datastore's clients", Err: err,
			Fix: "run as root on a machine with a server"}
	}
	cfg := clientv3.Config{Endpoints: []string{c.URL}, TLS: tls, DialTimeout: 10 * time.Second, Context: ctx}
	if _, err := clientsnapshot.SaveWithVersion(ctx, log, cfg, path); err != nil {
		return Facts{}, fmt.Errorf("taking a snapshot of the datastore: %w", err)
	}
	return CheckSnapshot(path)
}

// CheckSnapshot compares the checksum at the end of the file and reads every
// page before it.
func CheckSnapshot(path string) (facts Facts, err error) {
	if err := checkSum(path); err != nil {
		return facts, err
	}
	if err := checkBackend(path, true); err != nil {
		return facts, err
	}
	// Checked above, but on etcd's word only; see checkBackend.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: 5 * time.Second})
	if err != nil {
		return facts, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return facts, db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("key")).ForEach(func(k, _ []byte) error {
			if len(k) < 8 {
				return fmt.Errorf("key %x is no revision", k)
			}
			facts.Records++
			facts.Revision = max(facts.Revision, int64(binary.BigEndian.Uint64(k)))
			return nil
		})
	})
}

// checkSum compares the content with the checksum that etcd puts behind it.
func checkSum(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size() - sha256.Size
	// Pages are a multiple of 512 bytes.
	if size <= 0 || size%512 != 0 {
		return errors.New("it has no checksum of etcd")
	}
	h := sha256.New()
	if _, err := io.CopyN(h, f, size); err != nil {
		return err
	}
	want, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	if string(h.Sum(nil)) != string(want) {
		return errors.New("it has another checksum than etcd gave it")
	}
	return nil
}

// RestoreSnapshot makes a data directory for a new cluster with one member out
// of a snapshot, whose last revision is given. dir must not exist.
func RestoreSnapshot(path, dir, name string, revision int64, log *zap.Logger) (err error) {
	// What etcd calls fatal would end the process.
	log = log.WithOptions(zap.WithFatalHook(zapcore.WriteThenPanic))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("restoring the datastore: %v", p)
		}
	}()
	peer := fmt.Sprintf("https://127.0.0.1:%d", PeerPort)
	if err := snapshot.NewV3(log).Restore(snapshot.RestoreConfig{
		SnapshotPath:  path,
		Name:          name,
		OutputDataDir: dir,
		PeerURLs:      []string{peer},
		// Nothing that knew the old cluster may take part in the new one.
		InitialCluster:      name + "=" + peer,
		InitialClusterToken: "a4s-restored-" + rand.Text(),
		RevisionBump:        bump(revision, time.Now()),
		MarkCompacted:       true,
	}); err != nil {
		return fmt.Errorf("restoring the datastore: %w", err)
	}
	return os.Chmod(dir, 0o700)
}

// InUse reports whether a process has the data directory open.
func InUse(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, "member", "snap", "db"))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	busy := errors.Is(err, syscall.EWOULDBLOCK)
	if busy {
		err = nil
	}
	return busy, errors.Join(err, f.Close())
}
