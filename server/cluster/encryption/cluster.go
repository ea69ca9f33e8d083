package encryption

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/server/cluster/replicated"
)

const (
	// configKey has the configuration of all servers, sealed.
	configKey = "/a4s/encryption/configuration"
	// reportsPrefix begins the keys under which each server reports the
	// configuration that its API works with.
	reportsPrefix = "/a4s/encryption/servers/"
	// changeKey exists while a server changes the configuration.
	changeKey = "/a4s/encryption/change"
	// changeLife is how long changeKey outlives its server, in seconds.
	changeLife = 20
)

// Cluster connects a server to the others that share its datastore.
type Cluster struct {
	*replicated.Cluster
	// Store returns a new client of the datastore.
	Store func() (ClusterStore, error)
}

// ClusterStore is a connection to a datastore that several servers can have.
type ClusterStore interface {
	replicated.Store
	Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error)
	KeepAlive(ctx context.Context, id clientv3.LeaseID) (<-chan *clientv3.LeaseKeepAliveResponse, error)
	Revoke(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error)
}

// report is what a server reports. It stays true when the server has ended: one
// that starts takes no older configuration than it had.
type report struct {
	Hash     string `json:"hash"`
	Revision int64  `json:"revision"`
}

// document is the configuration of all servers.
func document(c *replicated.Cluster) *replicated.Document[report] {
	return &replicated.Document[report]{
		Cluster: c, Subject: "the encryption configuration",
		Key: configKey, Reports: reportsPrefix, ByName: true,
		Purpose: "a4s: configuration of the encryption of Secrets, version 1",
		Hash:    hash,
	}
}

// change is what changeKey has.
type change struct {
	Server string                   `json:"server"`
	Action joinapi.EncryptionAction `json:"action"`
}

// copyOf is the file of this server, which never gets an older content.
type copyOf struct {
	path string

	mu       sync.Mutex
	revision int64
}

func (c *copyOf) install(data []byte, revision int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if revision < c.revision {
		return nil
	}
	if err := writeFile(c.path, data); err != nil {
		return err
	}
	c.revision = revision
	return nil
}

// clusterStorage keeps the configuration in the datastore.
type clusterStorage struct {
	*replicated.Document[report]
	store ClusterStore
	file  *copyOf
}

// load returns the record of the datastore, or replicated.ErrNone.
func (l *clusterStorage) load(ctx context.Context) (*replicated.Record, error) {
	r, _, err := l.Load(ctx, l.store)
	return r, err
}

// content is what the file of each server has to be.
func (l *clusterStorage) content(r *replicated.Record) (*state, error) {
	data, err := os.ReadFile(l.file.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil || hash(data) != r.Hash {
		if data, err = l.Open(r); err != nil {
			return nil, err
		}
	}
	c, err := parse(l.file.path, data)
	return &state{configuration: c, data: data, revision: r.Revision}, err
}

func (l *clusterStorage) current(ctx context.Context) (*state, error) {
	r, err := l.load(ctx)
	if err != nil {
		return nil, err
	}
	return l.content(r)
}

func (l *clusterStorage) replace(ctx context.Context, was *state, next *configuration) error {
	data, err := next.render()
	if err != nil {
		return err
	}
	return l.put(ctx, data, was.revision)
}

// put stores the content of all files, if the record is of the revision.
func (l *clusterStorage) put(ctx context.Context, data []byte, revision int64) error {
	r := &replicated.Record{}
	if err := l.Replace(ctx, l.store, revision, r, data); err != nil {
		return err
	}
	return l.file.install(data, r.Revision)
}

func (l *clusterStorage) install(s *state) error { return l.file.install(s.data, s.revision) }

func (l *clusterStorage) behind(ctx context.Context, s *state) ([]string, error) {
	return l.Missing(ctx, l.store, func(r report) bool { return r.Hash == s.hash() && r.Revision >= s.revision })
}

func (l *clusterStorage) others() (bool, error) {
	names, err := l.Names()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(names, func(name string) bool { return name != l.Name }), nil
}

// report says that the API of this server works with s.
func (l *clusterStorage) report(ctx context.Context, s *state) error {
	return l.Report(ctx, l.store, report{Hash: s.hash(), Revision: s.revision})
}

// begin claims the right to change the configuration until the function that
// it returns is called, or until this server ends. Every change is compared with
// the record before it, so this is for the user only.
func (l *clusterStorage) begin(ctx context.Context, action joinapi.EncryptionAction) (end func(), err error) {
	value, err := json.Marshal(&change{Server: l.Name, Action: action})
	if err != nil {
		return nil, err
	}
	lease, err := l.store.Grant(ctx, changeLife)
	if err != nil {
		return nil, fmt.Errorf("claiming the change of the encryption: %w", err)
	}
	end = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		_, _ = l.store.Revoke(ctx, lease.ID) // it ends by itself, only later
	}
	if err := l.claim(ctx, string(value), lease.ID, 0); err != nil {
		end()
		return nil, err
	}
	alive, err := l.store.KeepAlive(ctx, lease.ID)
	if err != nil {
		end()
		return nil, err
	}
	go func() {
		for range alive { // until ctx ends
		}
	}()
	return end, nil
}

// claim writes changeKey if it is as it was at the revision. A change that this
// server itself began before it was restarted is no reason to refuse.
func (l *clusterStorage) claim(ctx context.Context, value string, lease clientv3.LeaseID, revision int64) error {
	resp, err := l.store.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(changeKey), "=", revision)).
		Then(clientv3.OpPut(changeKey, value, clientv3.WithLease(lease))).
		Else(clientv3.OpGet(changeKey)).
		Commit()
	if err != nil {
		return fmt.Errorf("claiming the change of the encryption: %w", err)
	}
	if resp.Succeeded {
		return nil
	}
	other := &change{}
	found := resp.Responses[0].GetResponseRange().GetKvs()
	if len(found) == 0 {
		return fmt.Errorf("%w: it has just ended", ErrBusy)
	}
	if err := json.Unmarshal(found[0].Value, other); err != nil {
		return err
	}
	if other.Server == l.Name && revision == 0 {
		return l.claim(ctx, value, lease, found[0].ModRevision)
	}
	return other.inProgress()
}

func (c *change) inProgress() error {
	return fmt.Errorf("%w: %s, on server %s", ErrBusy, c.Action, c.Server)
}

// idle fails while another server makes a change.
func (l *clusterStorage) idle(ctx context.Context) error {
	other, err := l.elsewhere(ctx)
	if err == nil && other != nil {
		err = other.inProgress()
	}
	return err
}

// elsewhere returns the change that another server makes, nil if none does.
func (l *clusterStorage) elsewhere(ctx context.Context) (*change, error) {
	resp, err := l.store.Get(ctx, changeKey)
	if err != nil {
		return nil, fmt.Errorf("asking the datastore for a change of the encryption: %w", err)
	}
	if len(resp.Kvs) == 0 {
		return nil, nil
	}
	c := &change{}
	if err := json.Unmarshal(resp.Kvs[0].Value, c); err != nil || c.Server == l.Name {
		return nil, err
	}
	return c, nil
}

// describe adds to a status what only a cluster has.
func (l *clusterStorage) describe(ctx context.Context, s *state, out *joinapi.EncryptionStatus) error {
	behind, err := l.behind(ctx, s)
	if err != nil {
		return err
	}
	names, err := l.Names()
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		current := !slices.Contains(behind, name)
		if name == l.Name {
			current = out.LoadedHash == s.hash()
		}
		out.Servers = append(out.Servers, joinapi.EncryptionServer{Name: name, Current: current})
	}
	if out.Job != nil && out.Job.Running {
		return nil
	}
	other, err := l.elsewhere(ctx)
	if err == nil && other != nil {
		out.Job = &joinapi.EncryptionJob{Action: other.Action, Running: true,
			Step: "in progress on server " + other.Server}
	}
	return err
}

func (l *clusterStorage) Close() error { return l.store.Close() }
