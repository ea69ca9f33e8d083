package encryption

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/apiserver/pkg/storage/value/encrypt/secretbox"
)

const (
	// secretsPrefix is where the Secrets of the system and of every tenant are.
	secretsPrefix = "/registry/secrets/"
	// boxPrefix begins what secretbox encrypted; the name of the key and a
	// colon follow. sealedPrefix begins what any provider did.
	boxPrefix    = "k8s:enc:secretbox:v1:"
	sealedPrefix = "k8s:enc:"
	// page is how many Secrets are read at once, of up to a MiB each.
	page = 50
	// writers rewrite at the same time, so that they share a flush to disk.
	writers = 8
	// attempts are made to rewrite a Secret that changes all the time.
	attempts = 20
)

// Names of what Secrets are stored with besides those of keys.
const (
	plain   = "none"
	foreign = "unknown"
)

var errForeign = errors.New("encrypted with a key that is not in the file")

// datastore is what an etcd client does for this package.
type datastore interface {
	Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error)
	Txn(ctx context.Context) clientv3.Txn
}

// storedWith names the key that a value was written with.
func storedWith(stored []byte) string {
	rest, ok := bytes.CutPrefix(stored, []byte(boxPrefix))
	if !ok {
		if bytes.HasPrefix(stored, []byte(sealedPrefix)) {
			return foreign
		}
		return plain
	}
	name, _, ok := bytes.Cut(rest, []byte(":"))
	if !ok {
		return foreign
	}
	return string(name)
}

// count says how many Secrets are stored with which key.
func count(ctx context.Context, store datastore) (map[string]int, error) {
	out := map[string]int{}
	err := walk(ctx, store, func(_ context.Context, _ string, stored []byte, _ int64) error {
		out[storedWith(stored)]++
		return nil
	})
	return out, err
}

// walk calls visit with each Secret of the datastore as it is stored.
func walk(
	ctx context.Context, store datastore,
	visit func(ctx context.Context, key string, stored []byte, revision int64) error,
) error {
	from, end := secretsPrefix, clientv3.GetPrefixRangeEnd(secretsPrefix)
	for {
		resp, err := store.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(page))
		if err != nil {
			return fmt.Errorf("reading Secrets from the datastore: %w", err)
		}
		for _, kv := range resp.Kvs {
			if err := visit(ctx, string(kv.Key), kv.Value, kv.ModRevision); err != nil {
				return err
			}
		}
		if !resp.More || len(resp.Kvs) == 0 {
			return nil
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
}

// rewrite stores every Secret as the configuration wants it that is stored in
// another way, and calls done after each.
func rewrite(ctx context.Context, store datastore, c *configuration, done func()) error {
	t, err := c.transformer()
	if err != nil {
		return err
	}
	want := c.active()
	if want == "" {
		want = plain
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	err = walk(ctx, store, func(ctx context.Context, key string, stored []byte, revision int64) error {
		if storedWith(stored) == want {
			return nil
		}
		group.Go(func() error {
			defer done()
			if err := rewriteOne(ctx, store, t, want, key, stored, revision); err != nil {
				return fmt.Errorf("rewriting %s: %w", strings.TrimPrefix(key, secretsPrefix), err)
			}
			return nil
		})
		return ctx.Err()
	})
	// The first failure of a writer is why the walk ended, too.
	if failed := group.Wait(); failed != nil {
		return failed
	}
	return err
}

// rewriteOne replaces what is stored under key unless it changes meanwhile;
// then it looks at what is there now.
func rewriteOne(
	ctx context.Context, store datastore, t value.Transformer, want, key string, stored []byte, revision int64,
) error {
	for range attempts {
		object, _, err := t.TransformFromStorage(ctx, stored, value.DefaultContext(key))
		if err != nil {
			return err
		}
		sealed, err := t.TransformToStorage(ctx, object, value.DefaultContext(key))
		if err != nil {
			return err
		}
		// The form that the API server's own updates have.
		resp, err := store.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
			Then(clientv3.OpPut(key, string(sealed))).
			Else(clientv3.OpGet(key)).
			Commit()
		if err != nil {
			return err
		}
		if resp.Succeeded {
			return nil
		}
		now := resp.Responses[0].GetResponseRange().GetKvs()
		if len(now) == 0 || storedWith(now[0].Value) == want {
			return nil // it was deleted, or the API server has written it
		}
		stored, revision = now[0].Value, now[0].ModRevision
	}
	return errors.New("it changes too often")
}

// transformer reads and writes what is stored as the API server does.
func (c *configuration) transformer() (value.Transformer, error) {
	var all []value.PrefixTransformer
	for _, p := range c.Resources[0].Providers {
		if p.Secretbox == nil {
			all = append(all, value.PrefixTransformer{Transformer: identity.NewEncryptCheckTransformer()})
			continue
		}
		for _, k := range p.Secretbox.Keys {
			secret, err := k.bytes()
			if err != nil {
				return nil, err
			}
			all = append(all, value.PrefixTransformer{Prefix: []byte(boxPrefix + k.Name + ":"),
				Transformer: secretbox.NewSecretboxTransformer(secret)})
		}
	}
	return value.NewPrefixTransformers(errForeign, all...), nil
}
