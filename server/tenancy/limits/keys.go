package limits

import (
	"context"
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/a4s-io/a4s/internal/space"
)

const (
	// perTxn is how many resources are looked at at once; etcd takes 128.
	perTxn = 100
	// countTimeout bounds one look into the datastore.
	countTimeout = 10 * time.Second
)

// keys knows where things are in the datastore.
type keys struct {
	log       *logrus.Entry
	mu        sync.Mutex
	client    *clientv3.Client
	config    storagebackend.TransportConfig
	root      string             // of all keys
	resources map[string]*stored // by prefix

	// surveyed are the places of undefined custom resources at some time.
	surveying  sync.Mutex // held while they are looked for; before mu
	surveyed   []string
	surveyedAt time.Time
	removals   int // of resources, so far
}

// stored is one resource.
type stored struct {
	resource schema.GroupResource
	layout   space.Layout
	counts   bool // as an object that is limited
	belongs  bool // to tenants
	custom   bool // is of a CRD
	users    int  // versions of a custom resource share their keys
	// decode reads a stored value; nil if nobody knows how.
	decode func(ctx context.Context, key string, value []byte) (runtime.Object, error)
	// plain is a stored value as it was before it was encrypted; nil if nobody knows
	// how.
	plain func(ctx context.Context, key string, value []byte) ([]byte, error)
}

// add makes a resource known, until the returned function is called.
func (k *keys) add(c *storagebackend.ConfigForResource, prefix string, s stored) (remove func()) {
	k.mu.Lock()
	k.config, k.root = c.Transport, c.Prefix
	k.mu.Unlock()
	return k.know(s, prefix)
}

// know makes known what is stored below a prefix, as add does.
func (k *keys) know(s stored, prefix string) (remove func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	full := path.Join("/", k.root, prefix)
	if k.resources[full] == nil {
		k.resources[full] = &s
	}
	if k.resources[full].decode == nil {
		k.resources[full].decode, k.resources[full].plain = s.decode, s.plain
	}
	k.resources[full].users++
	return sync.OnceFunc(func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.resources[full].users--; k.resources[full].users == 0 {
			delete(k.resources, full)
			k.removals++
			k.surveyedAt = time.Time{} // what it had can be nobody's now
		}
	})
}

// close ends the connection, if there is one.
func (k *keys) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client == nil {
		return
	}
	if err := k.client.Close(); err != nil && k.log != nil {
		k.log.WithError(err).Debug("Closing the connection of the limits to the datastore")
	}
	k.client = nil
}

// connect makes the connection at the first need.
func (k *keys) connect() (*clientv3.Client, error) {
	if k.client != nil {
		return k.client, nil
	}
	t := k.config
	config := clientv3.Config{Endpoints: t.ServerList, DialTimeout: countTimeout}
	if t.CertFile != "" || t.TrustedCAFile != "" {
		secure, err := transport.TLSInfo{CertFile: t.CertFile, KeyFile: t.KeyFile,
			TrustedCAFile: t.TrustedCAFile}.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("reading the certificates of the datastore: %w", err)
		}
		config.TLS = secure
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the datastore: %w", err)
	}
	k.client = client
	return client, nil
}
