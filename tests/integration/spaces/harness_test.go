// Package spaces_test runs the whole control plane in this process, in a
// network namespace of its own, and looks at it as users of tenants do.
package spaces_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
	"github.com/a4s-io/a4s/tests/planes"
)

const (
	deadline = planes.Deadline
	address  = planes.Address
)

// plane is a running control plane.
type plane struct {
	*planes.Plane
	admin kubernetes.Interface
	etcd  *clientv3.Client
}

// start runs a control plane until the test ends.
func start(t *testing.T, change func(*config.Server)) *plane {
	t.Helper()
	cfg := planes.Settings(t.TempDir())
	if change != nil {
		change(cfg)
	}
	p := planes.Start(t, cfg)
	return &plane{Plane: p, admin: p.Client, etcd: p.Etcd(t)}
}

// keys are those in etcd that contain part.
func (p *plane) keys(t *testing.T, part string) []string {
	t.Helper()
	resp, err := p.etcd.Get(t.Context(), "/registry/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, kv := range resp.Kvs {
		if key := string(kv.Key); strings.Contains(key, part) {
			found = append(found, key)
		}
	}
	return found
}

// user is a client with a certificate of these organizations and units.
func (p *plane) user(t *testing.T, name string, organizations, units []string) *rest.Config {
	t.Helper()
	return p.User(t, name, organizations, units)
}

// space is a tenant with what a test does in it.
type space struct {
	name    string
	config  *rest.Config
	client  kubernetes.Interface
	dynamic dynamic.Interface
}

// tenant makes a tenant with what tests of something else need of nodes and
// volumes.
func (p *plane) tenant(t *testing.T, name string) *space {
	t.Helper()
	s := p.bareTenant(t, name)
	p.allow(t, name, allowances.VolumeTypes, "nfs")
	p.allow(t, name, allowances.NodeNames, "true")
	p.allow(t, name, allowances.PriorityClasses, "high")
	return s
}

// allow sets the field of an allowance, whose value is as in the annotation. The API server learns of it a
// moment later.
func (p *plane) allow(t *testing.T, tenant, key, value string) {
	t.Helper()
	switch key {
	case allowances.PodSecurity:
		p.sets(t, tenant, allowances.Field(key), value)
	case allowances.NodeNames, allowances.DeviceAdminAccess:
		p.sets(t, tenant, allowances.Field(key), value == "true")
	default:
		if value == "false" {
			value = tenantapi.None
		}
		p.sets(t, tenant, allowances.Field(key), strings.Split(strings.ReplaceAll(value, " ", ""), ","))
	}
}

// disallow removes it.
func (p *plane) disallow(t *testing.T, tenant, key string) {
	t.Helper()
	p.sets(t, tenant, allowances.Field(key), nil)
}

// sets gives a field of a Tenant a value, nil for none.
func (p *plane) sets(t *testing.T, tenant, field string, value any) {
	t.Helper()
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Split(field, ".")
	for _, name := range slices.Backward(names) {
		value = map[string]any{name: value}
	}
	body, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tenants.Patch(t.Context(), tenant, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// bareTenant makes a tenant as it is by default and waits until it can be used. The
// client is that of its user admin, on short paths.
func (p *plane) bareTenant(t *testing.T, name string) *space {
	t.Helper()
	planes.CreateTenant(t, p.Admin, name)
	user, organizations := planes.AdminOf(name)
	s := p.as(t, name, p.user(t, user, organizations, nil))
	planes.AwaitAccount(t, s.config, "default")
	return s
}

func (p *plane) as(t *testing.T, tenant string, cfg *rest.Config) *space {
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &space{name: tenant, config: cfg, client: client, dynamic: dyn}
}

// get is the raw answer to a GET.
func get(t *testing.T, cfg *rest.Config, path string) (int, string) {
	t.Helper()
	return do(t, cfg, http.MethodGet, path, "", nil)
}

// says reports that the answer to a GET is not so. A watch is asked for more than once: one that lasts a second may
// end before a slow machine has said in it what there is.
func says(t *testing.T, cfg *rest.Config, path, accept string, so func(body string) bool) (body string) {
	t.Helper()
	ask := func() bool {
		_, body = do(t, cfg, http.MethodGet, path, "", []string{"Accept: " + accept})
		return so(body)
	}
	defer func() {
		if t.Failed() {
			t.Logf("%s as %s: %q", path, accept, body)
		}
	}()
	if strings.Contains(path, "watch=") {
		eventually(t, path+" to say so", func(context.Context) (bool, error) { return ask(), nil })
	} else if !ask() {
		t.Errorf("%s does not say so", path)
	}
	return body
}

// do sends one raw request; headers are "Name: value".
func do(t *testing.T, cfg *rest.Config, method, path, body string, headers []string) (int, string) {
	t.Helper()
	code, answer, err := try(t, cfg, method, path, body, headers)
	if err != nil {
		t.Fatal(err)
	}
	return code, answer
}

// try is do for a request that the server may cut off: it comes while its tenant is cordoned or ends, or its own
// timeout is over while it is answered.
func try(t *testing.T, cfg *rest.Config, method, path, body string, headers []string) (int, string, error) {
	t.Helper()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, cfg.Host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read to its end
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, "", fmt.Errorf("reading the answer to %s %s: %w", method, path, err)
	}
	return resp.StatusCode, string(answer), nil
}

func eventually(t *testing.T, what string, check func(ctx context.Context) (bool, error)) {
	t.Helper()
	planes.Eventually(t, what, check)
}

func quantity(s string) resource.Quantity { return resource.MustParse(s) }
