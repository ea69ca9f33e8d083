package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/tests/hosts"
)

// keyHolder writes Secrets through servers and knows what was acknowledged.
type keyHolder struct {
	ns    string
	mu    sync.Mutex
	acked map[string]bool
}

func (k *keyHolder) write(ctx context.Context, c *cluster, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"word": name}}
	_, err := c.client.CoreV1().Secrets(k.ns).Create(ctx, s, metav1.CreateOptions{})
	if err == nil {
		k.mu.Lock()
		k.acked[name] = true
		k.mu.Unlock()
	}
	return err
}

// readable checks that the API of every server has what was acknowledged.
func (k *keyHolder) readable(t *testing.T, servers ...*cluster) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range servers {
		list, err := c.client.CoreV1().Secrets(k.ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatalf("server %s: %v", c.host.Name, err)
		}
		there := map[string]string{}
		for _, s := range list.Items {
			there[s.Name] = string(s.Data["word"])
		}
		for name := range k.acked {
			if there[name] != name {
				t.Errorf("server %s has %q as Secret %s", c.host.Name, there[name], name)
			}
		}
	}
	t.Logf("%d Secrets are readable through %d servers", len(k.acked), len(servers))
}

func (c *cluster) encryption(t *testing.T) (s joinapi.EncryptionStatus) {
	t.Helper()
	if err := json.Unmarshal([]byte(c.must(t, "secrets-encrypt", "status", "-o", "json")), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// keysOnAllServers encrypts on the first server, and changes the key on the
// second one, while Secrets are written and the first one is killed.
func keysOnAllServers(t *testing.T, k *keyHolder, one, two, three *cluster) {
	began := time.Now()
	all := []*cluster{one, two, three}
	one.must(t, "secrets-encrypt", "enable")
	for i, c := range all {
		if s := c.encryption(t); s.ActiveKey != "key1" || s.Pending != 0 || s.Hash != s.LoadedHash ||
			len(s.Servers) != 3 {
			t.Errorf("server %s says %+v", c.host.Name, s)
		}
		for j := range 5 {
			if err := k.write(t.Context(), c, fmt.Sprintf("early-%d-%d", i, j)); err != nil {
				t.Fatal(err)
			}
		}
	}
	k.readable(t, all...)

	ctx, cancel := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	defer writer.Wait()
	defer cancel()
	writer.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if err := k.write(ctx, all[i%3], fmt.Sprintf("late-%d", i)); err != nil {
				continue // that server is down
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	one.proc.Kill()
	rotation, err := two.host.Start(env.binary, "secrets-encrypt", "rotate")
	if err != nil {
		t.Fatal(err)
	}
	hosts.Until(t, startTimeout, "the command names the server that is down", func(context.Context) error {
		if out := rotation.Output(); !strings.Contains(out, "waiting for one to read the keys") {
			return errors.New(out)
		}
		return nil
	})
	if s := three.encryption(t); s.Stage != joinapi.EncryptionKeyAdded || s.Job == nil ||
		!strings.Contains(s.Job.Step, "on server two") {
		t.Errorf("meanwhile another server says %+v, the job %+v", s, s.Job)
	}
	if r := three.a4s(t, "secrets-encrypt", "disable"); r.ExitCode == 0 {
		t.Errorf("a second change is let in: %s", r.Stdout)
	}
	one.restart(t)
	if code, err := rotation.ExitCode(startTimeout); err != nil || code != 0 {
		t.Fatalf("rotate: exit code %d, %v\n%s", code, err, rotation.Output())
	}
	one.waitServers(t, all...)
	cancel()
	writer.Wait()
	for i, c := range all {
		if err := k.write(t.Context(), c, fmt.Sprintf("last-%d", i)); err != nil {
			t.Error(err)
		}
		if s := c.encryption(t); s.ActiveKey != "key2" || len(s.Keys) != 1 || s.Pending != 0 ||
			s.Hash != s.LoadedHash {
			t.Errorf("at the end server %s says %+v", c.host.Name, s)
		}
	}
	k.readable(t, all...)
	for key, value := range three.stored(t, "/registry/secrets/") {
		if !bytes.HasPrefix(value, []byte("k8s:enc:secretbox:v1:key2:")) {
			t.Errorf("%s is stored as %.30q", key, value)
		}
	}
	t.Logf("keys on all servers: %s", time.Since(began).Round(time.Second))
}

// stored reads from the datastore of a server that others can join.
func (c *cluster) stored(t *testing.T, prefix string) map[string][]byte {
	t.Helper()
	dir := c.host.Path(dataDir + "/server/tls/etcd/")
	tls, err := transport.TLSInfo{TrustedCAFile: dir + "/server-ca.crt", CertFile: dir + "/client.crt",
		KeyFile: dir + "/client.key"}.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://" + c.host.IP.String() + ":2379"},
		TLS: tls, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	resp, err := client.Get(t.Context(), prefix, clientv3.WithPrefix())
	if err != nil || len(resp.Kvs) == 0 {
		t.Fatalf("%s in the datastore: %d keys, %v", prefix, len(resp.Kvs), err)
	}
	out := map[string][]byte{}
	for _, kv := range resp.Kvs {
		out[string(kv.Key)] = kv.Value
	}
	return out
}
