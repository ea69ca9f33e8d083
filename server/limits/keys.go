package limits

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/a4s-io/a4s/internal/space"
)

const (
	// perTxn is how many resources are counted at once; etcd takes 128.
	perTxn = 100
	// countTimeout bounds one count.
	countTimeout = 10 * time.Second
)

// keys counts the keys of a tenant in the datastore.
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
	counts   bool // to what is limited
	users    int  // versions of a custom resource share their keys
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
		secure, err := transport.TLSInfo{CertFile: t.CertFile, KeyFile: t.KeyFile, TrustedCAFile: t.TrustedCAFile}.ClientConfig()
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

// plan is what to ask for: everything, or the resources of one layout.
func (k *keys) plan(tenant string, wanted func(space.Layout) bool) (*clientv3.Client, []clientv3.Op, []string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	client, err := k.connect()
	if err != nil {
		return nil, nil, nil, err
	}
	var ops []clientv3.Op
	var below []string
	for prefix, r := range k.resources {
		if !r.counts || !wanted(r.layout) {
			continue
		}
		of := space.TenantPrefix(prefix, tenant)
		if r.layout == space.Namespaced {
			// The same prefix is that of a namespace of the system with the
			// tenant's name, whose keys are shorter by one segment.
			ops = append(ops, clientv3.OpGet(of, clientv3.WithPrefix(), clientv3.WithKeysOnly()))
			below = append(below, of)
			continue
		}
		ops = append(ops, clientv3.OpGet(of, clientv3.WithPrefix(), clientv3.WithCountOnly()))
		below = append(below, "")
	}
	return client, ops, below, nil
}

// count counts the keys of a tenant among the resources with a wanted layout.
func (k *keys) count(ctx context.Context, tenant string, wanted func(space.Layout) bool) (int64, error) {
	client, ops, below, err := k.plan(tenant, wanted)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	var n int64
	for len(ops) > 0 {
		some := min(perTxn, len(ops))
		answer, err := client.Txn(ctx).Then(ops[:some]...).Commit()
		if err != nil {
			return 0, fmt.Errorf("counting the objects of tenant %s: %w", tenant, err)
		}
		for i, r := range answer.Responses {
			found := r.GetResponseRange()
			if below[i] == "" {
				n += found.Count
				continue
			}
			for _, kv := range found.Kvs {
				if strings.Count(string(kv.Key[len(below[i]):]), "/") == 1 {
					n++
				}
			}
		}
		ops, below = ops[some:], below[some:]
	}
	return n, nil
}
