package e2e

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// killOwners kills a server of group 1 while a tenant comes to it, and while one leaves it.
// The other is of group 0.
func killOwners(t *testing.T, zero, one *cluster) {
	ctx := t.Context()
	t.Run("kill -9 of the new owner in mid-move", func(t *testing.T) {
		zero.setRange(t, "1", "a", "")
		one.proc.Kill()
		alpha := zero.inSpace(t, "alpha").CoreV1().ConfigMaps("default")
		if _, err := alpha.Create(ctx, configMap("in-mid-move", "x"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		one.restart(t)
		one.waitTenants(t, one.informer(t, "1"), "alpha", "zulu")
		want := namesOf(t, alpha.List, "")
		got := namesOf(t, one.inSpace(t, "alpha").CoreV1().ConfigMaps("default").List, "")
		if !slices.Equal(got, want) || !slices.Contains(got, "in-mid-move") {
			t.Errorf("the new owner lists %q, want %q", got, want)
		}
		zero.setRange(t, "1", "m", "")
		one.waitTenants(t, one.informer(t, "1"), "zulu")
	})
	t.Run("kill -9 of the old owner in mid-move", func(t *testing.T) {
		zero.setRange(t, "0", "", "zz")
		zero.setRange(t, "1", "zz", "")
		one.proc.Kill()
		zulu := zero.inSpace(t, "zulu").CoreV1().ConfigMaps("default")
		if _, err := zulu.Create(ctx, configMap("in-mid-move", "x"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		zero.waitTenants(t, zero.informer(t, "0"), "alpha", "zulu")
		one.restart(t)
		one.waitTenants(t, one.informer(t, "1"))
		if err := zulu.Delete(ctx, "in-mid-move", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		zero.setRange(t, "1", "m", "")
		zero.setRange(t, "0", "", "m")
		one.waitTenants(t, one.informer(t, "1"), "zulu")
	})
}
