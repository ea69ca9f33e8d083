package nodelife

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/a4s-io/a4s/internal/pki"
)

// newRecords are records that are known; watchers are told of changes.
func newRecords(t *testing.T, client *fake.Clientset, watchers ...func(node string)) *Records {
	t.Helper()
	l := logrus.New()
	l.SetOutput(io.Discard)
	r := New(client, logrus.NewEntry(l))
	for _, f := range watchers {
		r.OnChange(f) // before Run: what was seen may be told later than it is known
	}
	if err := r.Alive("n1", ""); !errors.Is(err, ErrNotYet) {
		t.Errorf("before anything is known: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	await(t, "the records are known", func() bool { return !errors.Is(r.Alive("n1", ""), ErrNotYet) })
	return r
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never happens that " + what)
		}
	}
}

// TestLives: a certificate is good in the life of its node that it says, one of an older
// release in the first, and without a record all are.
func TestLives(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	told := make(chan string, 100)
	r, other := newRecords(t, client, func(node string) { told <- node }), newRecords(t, client)
	ctx := t.Context()
	for _, life := range []string{"", "x"} {
		if err := r.Alive("n1", life); err != nil {
			t.Errorf("without a record: %v", err)
		}
	}
	ip := netip.MustParseAddr("192.0.2.1")
	first, err := r.Change(ctx, "n1", func(record *Record, there bool) error {
		record.Begin()
		record.Former, record.Addresses = !there, []netip.Addr{ip}
		return nil
	})
	if err != nil || !first.Good(first.Life) || !first.Good("") || first.Good("x") {
		t.Fatalf("%+v, %v", first, err)
	}
	await(t, "another server knows of the life", func() bool { return errors.Is(other.Alive("n1", "x"), ErrDead) })
	if got, known, err := other.Joined(ctx, "n1"); err != nil || !known || len(got) != 1 || got[0] != ip {
		t.Errorf("%v, %v, %v", got, known, err)
	}
	if err := r.Mark(ctx, "n1", first); err != nil {
		t.Fatal(err)
	}
	mark := func() string {
		n, err := client.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return n.Annotations[pki.NodeLife]
	}
	if !GoodBy(mark(), first.Life) || !GoodBy(mark(), "") || GoodBy(mark(), "x") {
		t.Errorf("the mark is %q", mark())
	}
	if node := <-told; node != "n1" {
		t.Errorf("told of %q", node)
	}
	if err := r.Revoke(ctx, "n1"); err != nil {
		t.Fatal(err)
	}
	for _, life := range []string{"", first.Life} {
		await(t, "the end is known", func() bool { return errors.Is(r.Alive("n1", life), ErrDead) })
		await(t, "another server knows of the end", func() bool { return errors.Is(other.Alive("n1", life), ErrDead) })
		if GoodBy(mark(), life) {
			t.Errorf("the mark is %q", mark())
		}
	}
	if node := <-told; node != "n1" {
		t.Errorf("told of %q", node)
	}
	second, err := r.Change(ctx, "n1", func(record *Record, there bool) error {
		record.Begin()
		return nil
	})
	if err != nil || second.Life == first.Life || second.Good(first.Life) || second.Good("") ||
		!second.Good(second.Life) || len(second.Addresses) > 0 {
		t.Errorf("%+v, %v", second, err)
	}
	// A node that has no record is not forgotten to have ended.
	if err := r.End(ctx, "never-seen"); err != nil || !errors.Is(r.Alive("never-seen", ""), ErrDead) {
		t.Errorf("%v, %v", err, r.Alive("never-seen", ""))
	}
	if err := r.Sweep(ctx, time.Hour); err != nil || !errors.Is(r.Alive("never-seen", ""), ErrDead) {
		t.Errorf("swept too early: %v", err)
	}
	r.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if err := r.Sweep(ctx, time.Hour); err != nil {
		t.Fatal(err)
	}
	await(t, "it is forgotten", func() bool { return r.Alive("never-seen", "") == nil })
	if err := r.Alive("n1", first.Life); !errors.Is(err, ErrDead) {
		t.Errorf("one that lives is not forgotten: %v", err)
	}
}

// TestRecordsThatCannotBeRead are of no good certificate.
func TestRecordsThatCannotBeRead(t *testing.T) {
	secret := func(name string, data map[string][]byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name + suffix},
			Type: SecretType, Data: data}
	}
	r := newRecords(t, fake.NewClientset(secret("empty", nil), secret("bad", map[string][]byte{keyLife: []byte("x"),
		keyAddresses: []byte("here")})))
	for _, node := range []string{"empty", "bad"} {
		for _, life := range []string{"", "x"} {
			if err := r.Alive(node, life); !errors.Is(err, ErrDead) {
				t.Errorf("%s, %q: %v", node, life, err)
			}
		}
	}
}
