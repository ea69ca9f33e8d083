package placement

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// stores are the placements of home and the tenants of each partition. Their client ends after
// some writes: nothing that it asks for later is heard.
type stores struct {
	mu         sync.Mutex
	revision   int
	placements map[string]*partitionapi.TenantPlacement
	tenants    map[string]*tenantapi.Tenant // by partition/name
	left       int                          // writes until the end of the client, -1 for no end
}

func newStores() *stores {
	return &stores{placements: map[string]*partitionapi.TenantPlacement{}, tenants: map[string]*tenantapi.Tenant{},
		left: -1}
}

// endAfter has the client end after so many writes from now on.
func (s *stores) endAfter(writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = writes
}

// lives reports whether the client has not ended.
func (s *stores) lives() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left > 0
}

// ServeHTTP answers /PARTITION/api/v1/RESOURCE/NAME.
func (s *stores) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	partition, resource, name := parts[0], parts[3], ""
	if len(parts) > 4 {
		name = parts[4]
	}
	var o metav1.DeleteOptions
	dry := req.URL.Query().Get("dryRun") != ""
	if req.Method == http.MethodDelete {
		_ = json.NewDecoder(req.Body).Decode(&o) // there may be none
		dry = dry || len(o.DryRun) > 0
	}
	if req.Method != http.MethodGet && !dry && s.left == 0 {
		panic(http.ErrAbortHandler)
	}
	out, err := s.answer(req, partition, resource, name, o, dry)
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(int(err.ErrStatus.Code))
		out = err.ErrStatus
	}
	_ = json.NewEncoder(w).Encode(out)
}

func (s *stores) answer(
	req *http.Request, partition, resource, name string, o metav1.DeleteOptions, dry bool,
) (any, *apierrors.StatusError) {
	stamp := func(m *metav1.ObjectMeta) {
		if s.revision++; m.UID == "" {
			m.UID, m.CreationTimestamp = types.UID(fmt.Sprint("uid-", s.revision)), metav1.Now()
		}
		m.ResourceVersion = fmt.Sprint(s.revision)
		s.left--
	}
	kind := func(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: kind} }
	group := partitionapi.GroupVersion().WithResource(resource).GroupResource()
	key := partition + "/" + name
	if resource == partitionapi.Placements {
		var p partitionapi.TenantPlacement
		if req.Method == http.MethodPost || req.Method == http.MethodPut {
			_ = json.NewDecoder(req.Body).Decode(&p)
			p.TypeMeta = kind("TenantPlacement")
		}
		was := s.placements[name]
		switch {
		case req.Method == http.MethodPost && s.placements[p.Name] != nil:
			return nil, apierrors.NewAlreadyExists(group, p.Name)
		case req.Method == http.MethodPost:
			stamp(&p.ObjectMeta)
			s.placements[p.Name] = &p
			return &p, nil
		case was == nil:
			return nil, apierrors.NewNotFound(group, name)
		case req.Method == http.MethodPut && p.ResourceVersion != was.ResourceVersion:
			return nil, apierrors.NewConflict(group, name, errTaken)
		case req.Method == http.MethodPut:
			stamp(&p.ObjectMeta)
			s.placements[name] = &p
			return &p, nil
		case req.Method == http.MethodDelete:
			s.left--
			delete(s.placements, name)
		}
		return was, nil
	}
	was := s.tenants[key]
	switch {
	case req.Method == http.MethodPost:
		var t tenantapi.Tenant
		_ = json.NewDecoder(req.Body).Decode(&t)
		return s.makeTenant(partition, &t, stamp)
	case was == nil:
		return nil, apierrors.NewNotFound(group, name)
	case req.Method == http.MethodDelete && o.Preconditions != nil && o.Preconditions.UID != nil &&
		*o.Preconditions.UID != was.UID:
		return nil, apierrors.NewConflict(group, name, errTaken)
	case req.Method == http.MethodDelete && !dry:
		s.left--
		delete(s.tenants, key)
	}
	return was, nil
}

func (s *stores) makeTenant(
	partition string, t *tenantapi.Tenant, stamp func(*metav1.ObjectMeta),
) (any, *apierrors.StatusError) {
	key := partition + "/" + t.Name
	if s.tenants[key] != nil {
		return nil, apierrors.NewAlreadyExists(tenantapi.GroupResource(), t.Name)
	}
	t.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Tenant"}
	stamp(&t.ObjectMeta)
	s.tenants[key] = t
	return t, nil
}

// storeDirectory knows what home has.
type storeDirectory struct {
	known
	*stores
}

func (d storeDirectory) Placements() (out []*partitionapi.TenantPlacement) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.placements {
		out = append(out, p.DeepCopy())
	}
	return out
}

// storePeers are the partitions by paths.
type storePeers struct{ url string }

func (storePeers) Ready(context.Context, string) error { return nil }

func (p storePeers) Tenants(partition string) (*tenantapi.Client, error) {
	return tenantapi.NewClient(p.config(partition), nil)
}

func (p storePeers) config(partition string) *rest.Config {
	return &rest.Config{Host: p.url + "/" + partition,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// process is a server of home.
func (s *stores) process(t *testing.T, url string) (*Placer, *tenantapi.Client) {
	t.Helper()
	at := storePeers{url}
	placements, err := partitionapi.NewPlacementClient(at.config(partitionapi.Home), nil)
	if err != nil {
		t.Fatal(err)
	}
	home, err := at.Tenants(partitionapi.Home)
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetLevel(logrus.PanicLevel)
	return New(storeDirectory{stores: s}, at, placements, nil, logrus.NewEntry(log)), home
}

// state is what there is of the tenant t.
func (s *stores) state() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.placements) == 0 && len(s.tenants) == 0 {
		return "nothing"
	}
	for key, t := range s.tenants {
		p := s.placements["t"]
		if len(s.tenants) == 1 && p != nil && p.Status.Phase == partitionapi.PlacementActive &&
			p.Status.TenantUID == t.UID && p.Spec.Partition+"/t" == key {
			return "whole"
		}
	}
	data, err := json.Marshal([]any{s.placements, s.tenants})
	return fmt.Sprint(string(data), err)
}

// TestKilledBetweenWrites ends the server that makes or deletes a tenant, at home and elsewhere,
// after each of its writes. Who resumes makes the tenant, or finishes its end, and ends after
// each of its own writes, too; a deletion of which nothing was written has not begun.
func TestKilledBetweenWrites(t *testing.T) {
	create := func(ctx context.Context, p *Placer, home *tenantapi.Client, partition string) error {
		tenant := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t"},
			Spec: tenantapi.TenantSpec{Partition: partition}}
		_, err := p.Create(ctx, tenant, nil, func(ctx context.Context) (*tenantapi.Tenant, error) {
			return home.Create(ctx, tenant, metav1.CreateOptions{})
		})
		return err
	}
	remove := func(ctx context.Context, p *Placer, home *tenantapi.Client, _ string) error {
		_, _, err := p.Delete(ctx, "t", nil, func(
			ctx context.Context, o *metav1.DeleteOptions,
		) (*tenantapi.Tenant, bool, error) {
			if o != nil && len(o.DryRun) > 0 {
				return nil, false, nil
			}
			return &tenantapi.Tenant{}, true, home.Delete(ctx, "t", metav1.DeleteOptions{})
		})
		return err
	}
	for _, partition := range []string{partitionapi.Home, "tp2"} {
		for name, c := range map[string]struct {
			act           func(context.Context, *Placer, *tenantapi.Client, string) error
			before, after string
		}{"create": {create, "nothing", "whole"}, "delete": {remove, "whole", "nothing"}} {
			t.Run(name+" at "+partition, func(t *testing.T) {
				for writes, whole := 0, false; !whole; writes++ {
					s := newStores()
					server := httptest.NewServer(s)
					p, home := s.process(t, server.URL)
					if c.before == "whole" {
						if err := create(t.Context(), p, home, partition); err != nil {
							t.Fatal(err)
						}
					}
					if got := s.state(); got != c.before {
						t.Fatalf("it begins with %s", got)
					}
					s.endAfter(writes)
					whole = c.act(t.Context(), p, home, partition) == nil && s.lives()
					want := c.after
					if writes == 0 {
						want = c.before
					}
					// Each of those that resume ends after one write.
					for range 6 {
						s.endAfter(1)
						p, _ = s.process(t, server.URL)
						for _, placed := range p.dir.Placements() {
							_ = p.resume(t.Context(), placed, time.Now().Add(2*patience)) // tried again
						}
					}
					if got := s.state(); got != want {
						t.Errorf("ended after %d writes there is: %s", writes, got)
					}
					server.Close()
				}
			})
		}
	}
}
