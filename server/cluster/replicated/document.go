package replicated

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var (
	// ErrNone means that the datastore has no record.
	ErrNone = errors.New("the datastore has none")
	// ErrChanged means that the record is not the one that was to be replaced.
	ErrChanged = errors.New("another server has made a change at the same time")
	// ErrNoMembers means that the members cannot be read now.
	ErrNoMembers = errors.New("the datastore of this server does not run")
)

// Store is a connection to the datastore.
type Store interface {
	Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error)
	Txn(ctx context.Context) clientv3.Txn
	Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan
	Close() error
}

// Member is a server, as the datastore lists it.
type Member struct {
	ID string
	// Name is empty while the server joins; it has read nothing so far.
	Name string
	URLs []string
}

// Cluster is what the servers that share a datastore know of each other.
type Cluster struct {
	// Name is that of this server.
	Name string
	// Several says that there may be other servers.
	Several bool
	// Members returns all servers, this one among them, or none while the
	// datastore does not run.
	Members func() []Member
	// Secret is known to the servers of this cluster, and no copy of the
	// datastore has it.
	Secret func() ([]byte, error)
}

// Self returns the member of this server.
func (c *Cluster) Self() (Member, error) {
	for _, m := range c.Members() {
		if m.Name == c.Name {
			return m, nil
		}
	}
	return Member{}, ErrNoMembers
}

// Names returns the names of all servers that have one, this one among them.
func (c *Cluster) Names() ([]string, error) {
	var names []string
	for _, m := range c.Members() {
		if m.Name != "" {
			names = append(names, m.Name)
		}
	}
	if len(names) == 0 {
		return nil, ErrNoMembers
	}
	return names, nil
}

// Document is one content that all servers share. R is what each of them
// reports.
type Document[R any] struct {
	*Cluster
	// Subject is the content, for errors.
	Subject string
	// Key has the record.
	Key string
	// Reports begins the keys of the reports. The ID of the member follows, or
	// the name of the server if ByName is set.
	Reports string
	ByName  bool
	// Purpose is that of the sealed content.
	Purpose string
	// Hash identifies a content.
	Hash func(content []byte) string
}

// Record is a version of a document.
type Record struct {
	// From is the hash of the content that this one follows, and Replaced names
	// the parts that differ. A document that needs neither leaves them empty.
	From     string   `json:"from,omitempty"`
	Replaced []string `json:"replaced,omitempty"`
	// Hash is that of the content, so that a server knows a copy of it without
	// opening anything.
	Hash   string `json:"hash"`
	Sealed []byte `json:"sealed"`

	// Revision is that of the datastore when the record was written.
	Revision int64 `json:"-"`
}

func (d *Document[R]) box() Box { return Box{Purpose: d.Purpose, Label: d.Key} }

// Open returns the content of a record. It fails with ErrSealed if the servers
// have another secret now.
func (d *Document[R]) Open(r *Record) ([]byte, error) {
	secret, err := d.Secret()
	if err != nil {
		return nil, err
	}
	content, err := d.box().Open(secret, r.Sealed)
	if err == nil && d.Hash(content) != r.Hash {
		err = ErrSealed
	}
	if err != nil {
		return nil, fmt.Errorf("%s in the datastore cannot be read: %w", d.Subject, err)
	}
	return content, nil
}

// Load returns the record. With ErrNone it returns an empty one that a first
// record can replace; its revision is 0. The other revision is that of the
// answer: a watch that begins after it misses nothing.
func (d *Document[R]) Load(ctx context.Context, store Store) (*Record, int64, error) {
	resp, err := store.Get(ctx, d.Key)
	if err != nil {
		return nil, 0, fmt.Errorf("reading %s from the datastore: %w", d.Subject, err)
	}
	if len(resp.Kvs) == 0 {
		return &Record{}, resp.Header.Revision, fmt.Errorf("%s: %w", d.Subject, ErrNone)
	}
	r, err := d.decode(resp.Kvs[0])
	return r, resp.Header.Revision, err
}

func (d *Document[R]) decode(kv *mvccpb.KeyValue) (*Record, error) {
	r := &Record{}
	if err := json.Unmarshal(kv.Value, r); err != nil {
		return nil, fmt.Errorf("%s in the datastore: %w", d.Subject, err)
	}
	r.Revision = kv.ModRevision
	return r, nil
}

// Replace seals the content into r and stores r where the record of the
// revision was, 0 for none. It fails with ErrChanged if there is another one.
func (d *Document[R]) Replace(ctx context.Context, store Store, revision int64, r *Record, content []byte) error {
	secret, err := d.Secret()
	if err != nil {
		return err
	}
	r.Hash = d.Hash(content)
	if r.Sealed, err = d.box().Seal(secret, content); err != nil {
		return err
	}
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	resp, err := store.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(d.Key), "=", revision)).
		Then(clientv3.OpPut(d.Key, string(value))).
		Commit()
	if err != nil {
		return fmt.Errorf("writing %s to the datastore: %w", d.Subject, err)
	}
	if !resp.Succeeded {
		return fmt.Errorf("%s: %w", d.Subject, ErrChanged)
	}
	r.Revision = resp.Header.Revision
	return nil
}
