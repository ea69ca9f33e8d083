package spaces_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
)

// TestNothingIsMadeBehindADeletion: who keeps making things in a space while
// its tenant is deleted leaves nothing behind, whoever comes first.
func TestNothingIsMadeBehindADeletion(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	const rounds, makers = 12, 4
	var made atomic.Int64
	for round := range rounds {
		name := fmt.Sprintf("gone-%d", round)
		s := p.tenant(t, name)
		ctx, stop := context.WithCancel(t.Context())
		var making sync.WaitGroup
		for maker := range makers {
			making.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					word := fmt.Sprintf("m%d-%d", maker, i)
					var err error
					switch i % 3 {
					case 0: // of no namespace
						_, err = s.client.CoreV1().PersistentVolumes().Create(ctx, volume(word),
							metav1.CreateOptions{})
					case 1:
						_, err = s.client.CoreV1().Namespaces().Create(ctx,
							&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: word}}, metav1.CreateOptions{})
					case 2: // past the edge
						_, err = p.admin.CoreV1().ConfigMaps("default."+name).Create(ctx, configMap(word),
							metav1.CreateOptions{})
					}
					if err == nil {
						made.Add(1)
					}
				}
			})
		}
		if err := tenants.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the tenant to be gone", func(ctx context.Context) (bool, error) {
			_, err := tenants.Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		})
		stop()
		making.Wait()
		if left := p.keys(t, "/"+name+"/"); len(left) > 0 {
			t.Errorf("round %d: left in etcd: %v", round, left)
		}
	} // Otherwise there was nothing to leave behind.
	if made.Load() < rounds {
		t.Errorf("%d objects were made in %d spaces", made.Load(), rounds)
	}
}
