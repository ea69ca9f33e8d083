package spaces_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// marks makes each limit that is waited for another one.
var marks atomic.Int64

// bounded sets limits and waits until the server acts on them: no cache that can be asked is as
// new as its own. So it adds one that no other call sets, of memory, or of storage if memory is
// tried, and asks for more until it is refused by just that one.
func (p *plane) bounded(t *testing.T, tenant, limits string) {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal([]byte(limits), &all); err != nil {
		t.Fatal(err)
	}
	mark, namespace, try := fmt.Sprint(int64(1)<<40+marks.Add(1)), "default."+tenant, p.makesLargePod
	if _, tried := all["memory"]; tried {
		all["storage"], try = mark, p.makesLargeClaim
	} else {
		all["memory"] = mark
	}
	marked, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	p.limit(t, tenant, "null")
	p.limit(t, tenant, string(marked))
	eventually(t, "the limits "+limits, func(ctx context.Context) (bool, error) {
		err := try(ctx, namespace)
		if apierrors.IsForbidden(err) {
			return strings.Contains(err.Error(), "limited: "+mark), nil // else by the limits before
		}
		return false, err
	})
}

// makesLargePod makes a pod that requests more memory than any limit of bounded, and deletes it.
func (p *plane) makesLargePod(ctx context.Context, namespace string) error {
	pods, large := p.admin.CoreV1().Pods(namespace), sleeper("", corev1.ResourceList{"memory": quantity("1Pi")})
	large.GenerateName = "large-"
	large, err := pods.Create(ctx, large, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return pods.Delete(ctx, large.Name, *metav1.NewDeleteOptions(0))
}

// makesLargeClaim is makesLargePod with a claim of storage.
func (p *plane) makesLargeClaim(ctx context.Context, namespace string) error {
	claims, large := p.admin.CoreV1().PersistentVolumeClaims(namespace), storageClaim("", "1Pi")
	large.GenerateName = "large-" // a deleted claim can stay for a while
	large, err := claims.Create(ctx, large, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return claims.Delete(ctx, large.Name, metav1.DeleteOptions{})
}

// storageClaim is a claim of a size.
func storageClaim(name, size string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": quantity(size)}},
		}}
}
