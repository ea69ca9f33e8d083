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
)

const (
	// configKey has the configuration of all servers, sealed.
	configKey = "/a4s/encryption/configuration"
	// serversPrefix begins the keys under which each server says what its API
	// works with.
	serversPrefix = "/a4s/encryption/servers/"
	// changeKey is there while a server changes the configuration.
	changeKey = "/a4s/encryption/change"
	// changeLife is how long changeKey outlives its server, in seconds.
	changeLife = 20
)

var (
	errChanged    = errors.New("another server has changed the configuration at the same time")
	errNoMembers  = errors.New("the datastore of this server does not run")
	errNoneStored = errors.New("the datastore has no configuration")
)

// Cluster is what servers that share a datastore know of each other.
type Cluster struct {
	// Name is that of this server.
	Name string
	// Several says that there may be others than this one.
	Several bool
	// Members names the servers with a member of the datastore that has been
	// started, this one among them; none while that cannot be told.
	Members func() []string
	// Secret is what the servers of this cluster know, and no copy of the
	// datastore tells.
	Secret func() ([]byte, error)
	// Store returns a new client of the datastore.
	Store func() (ClusterStore, error)
}

// ClusterStore is a connection to a datastore that several servers can have.
type ClusterStore interface {
	Store
	Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan
	Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error)
	KeepAlive(ctx context.Context, id clientv3.LeaseID) (<-chan *clientv3.LeaseKeepAliveResponse, error)
	Revoke(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error)
}

// record is what configKey has.
type record struct {
	// Hash is that of the file, by which a server knows its own.
	Hash   string `json:"hash"`
	Sealed []byte `json:"sealed"`

	revision int64
}

// report is what a server says of itself. It stays true when the server is
// gone: one that starts takes no older configuration than it had.
type report struct {
	Hash     string `json:"hash"`
	Revision int64  `json:"revision"`
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

// clusterLedger keeps the configuration in the datastore.
type clusterLedger struct {
	*Cluster
	store ClusterStore
	file  *copyOf
}

// record returns what the datastore has, or errNoneStored.
func (l *clusterLedger) record(ctx context.Context) (*record, error) {
	resp, err := l.store.Get(ctx, configKey)
	if err != nil {
		return nil, fmt.Errorf("reading the encryption configuration from the datastore: %w", err)
	}
	if len(resp.Kvs) == 0 {
		return nil, errNoneStored
	}
	return readRecord(resp.Kvs[0].Value, resp.Kvs[0].ModRevision)
}

func readRecord(value []byte, revision int64) (*record, error) {
	r := &record{revision: revision}
	if err := json.Unmarshal(value, r); err != nil {
		return nil, fmt.Errorf("the encryption configuration in the datastore: %w", err)
	}
	return r, nil
}

// content is what the file of each server has to be.
func (l *clusterLedger) content(r *record) (*state, error) {
	data, err := os.ReadFile(l.file.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil || hash(data) != r.Hash {
		if data, err = l.open(r); err != nil {
			return nil, err
		}
	}
	c, err := parse(l.file.path, data)
	return &state{configuration: c, data: data, revision: r.revision}, err
}

func (l *clusterLedger) open(r *record) ([]byte, error) {
	secret, err := l.Secret()
	if err != nil {
		return nil, err
	}
	data, err := unseal(secret, r.Sealed)
	if err == nil && hash(data) != r.Hash {
		err = errSealed
	}
	if err != nil {
		return nil, fmt.Errorf("the encryption configuration in the datastore cannot be read: %w", err)
	}
	return data, nil
}

func (l *clusterLedger) current(ctx context.Context) (*state, error) {
	r, err := l.record(ctx)
	if err != nil {
		return nil, err
	}
	return l.content(r)
}

func (l *clusterLedger) replace(ctx context.Context, was *state, next *configuration) error {
	data, err := next.render()
	if err != nil {
		return err
	}
	return l.put(ctx, data, was.revision)
}

// put stores the content of all files, if what is there is of the revision.
func (l *clusterLedger) put(ctx context.Context, data []byte, revision int64) error {
	secret, err := l.Secret()
	if err != nil {
		return err
	}
	sealed, err := seal(secret, data)
	if err != nil {
		return err
	}
	value, err := json.Marshal(&record{Hash: hash(data), Sealed: sealed})
	if err != nil {
		return err
	}
	resp, err := l.store.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(configKey), "=", revision)).
		Then(clientv3.OpPut(configKey, string(value))).
		Commit()
	if err != nil {
		return fmt.Errorf("writing the encryption configuration to the datastore: %w", err)
	}
	if !resp.Succeeded {
		return errChanged
	}
	return l.file.install(data, resp.Header.Revision)
}

func (l *clusterLedger) install(s *state) error { return l.file.install(s.data, s.revision) }

func (l *clusterLedger) behind(ctx context.Context, s *state) ([]string, error) {
	resp, err := l.store.Get(ctx, serversPrefix, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("asking the datastore for the other servers: %w", err)
	}
	var there []string
	for _, kv := range resp.Kvs {
		var r report
		if json.Unmarshal(kv.Value, &r) == nil && r.Hash == s.hash() && r.Revision >= s.revision {
			there = append(there, string(kv.Key[len(serversPrefix):]))
		}
	}
	// Later than the datastore answered, and so with all that have read from it.
	members := l.Members()
	if len(members) == 0 {
		return nil, errNoMembers
	}
	return slices.DeleteFunc(members, func(name string) bool { return name == l.Name || slices.Contains(there, name) }), nil
}

func (l *clusterLedger) others() (bool, error) {
	members := l.Members()
	if len(members) == 0 {
		return false, errNoMembers
	}
	return slices.ContainsFunc(members, func(name string) bool { return name != l.Name }), nil
}

// report says that the API of this server works with s.
func (l *clusterLedger) report(ctx context.Context, s *state) error {
	value, err := json.Marshal(&report{Hash: s.hash(), Revision: s.revision})
	if err != nil {
		return err
	}
	if _, err := l.store.Txn(ctx).Then(clientv3.OpPut(serversPrefix+l.Name, string(value))).Commit(); err != nil {
		return fmt.Errorf("telling the other servers which key is read: %w", err)
	}
	return nil
}

// begin claims the right to change the configuration until the function that
// it returns is called, or until this server is gone. Every change is compared
// with what was there before, so this is for the user only.
func (l *clusterLedger) begin(ctx context.Context, action joinapi.EncryptionAction) (end func(), err error) {
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

// claim writes changeKey if it is as it was at the revision. What this server
// itself began before it was restarted is in nobody's way.
func (l *clusterLedger) claim(ctx context.Context, value string, lease clientv3.LeaseID, revision int64) error {
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
	there := resp.Responses[0].GetResponseRange().GetKvs()
	if len(there) == 0 {
		return fmt.Errorf("%w: it has just ended", ErrBusy)
	}
	if err := json.Unmarshal(there[0].Value, other); err != nil {
		return err
	}
	if other.Server == l.Name && revision == 0 {
		return l.claim(ctx, value, lease, there[0].ModRevision)
	}
	return other.busy()
}

func (c *change) busy() error { return fmt.Errorf("%w: %s, on server %s", ErrBusy, c.Action, c.Server) }

// idle fails while another server makes a change.
func (l *clusterLedger) idle(ctx context.Context) error {
	other, err := l.elsewhere(ctx)
	if err == nil && other != nil {
		err = other.busy()
	}
	return err
}

// elsewhere returns the change that another server makes, nil if none does.
func (l *clusterLedger) elsewhere(ctx context.Context) (*change, error) {
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
func (l *clusterLedger) describe(ctx context.Context, s *state, out *joinapi.EncryptionStatus) error {
	behind, err := l.behind(ctx, s)
	if err != nil {
		return err
	}
	members := l.Members()
	slices.Sort(members)
	for _, name := range members {
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
		out.Job = &joinapi.EncryptionJob{Action: other.Action, Running: true, Step: "in progress on server " + other.Server}
	}
	return err
}

func (l *clusterLedger) Close() error { return l.store.Close() }
