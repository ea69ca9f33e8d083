package nodeapi

import (
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

func quietLog() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return logrus.NewEntry(l)
}

func credential(node string, age time.Duration, t corev1.SecretType) *corev1.Secret {
	s := newCredential(node+secretSuffix, "password")
	s.Type = t
	s.CreationTimestamp = metav1.NewTime(time.Now().Add(-age))
	return s
}

// waitForSecrets waits until exactly these secrets are left.
func waitForSecrets(t *testing.T, client *fake.Clientset, want ...string) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		list, err := client.CoreV1().Secrets(metav1.NamespaceSystem).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range list.Items {
			got = append(got, s.Name)
		}
		slices.Sort(got)
		if slices.Equal(got, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("secrets %v, want %v", got, want)
		}
		time.Sleep(5 * time.Millisecond) // between two looks, not instead of one
	}
}

func TestCredentialsFollowTheirNodes(t *testing.T) {
	objects := []runtime.Object{
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "alive"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "deleted"}},
		credential("alive", 2*staleAfter, SecretTypeNodePassword),
		credential("deleted", 0, SecretTypeNodePassword),
		credential("joining", staleAfter/2, SecretTypeNodePassword),
		credential("stale", 2*staleAfter, SecretTypeNodePassword),
		credential("foreign", 2*staleAfter, corev1.SecretTypeOpaque),
	}
	client := fake.NewClientset(objects...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- NewNodeCredentials(client, quietLog()).Run(ctx) }()

	alive, deleted, foreign, joining := "alive"+secretSuffix, "deleted"+secretSuffix, "foreign"+secretSuffix,
		"joining"+secretSuffix
	waitForSecrets(t, client, alive, deleted, foreign, joining) // "stale" was swept
	if err := client.CoreV1().Nodes().Delete(ctx, "deleted", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForSecrets(t, client, alive, foreign, joining)

	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run returned %v", err)
	}
}
