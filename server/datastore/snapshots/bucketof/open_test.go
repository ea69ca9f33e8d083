package bucketof

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/datastore/snapshots/archive"
)

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func secret(namespace, bucket string) *v1.Secret {
	return &v1.Secret{ObjectMeta: meta(namespace, "s3"), Data: map[string][]byte{
		"etcd-s3-bucket": []byte(bucket), "etcd-s3-access-key": []byte("AK"), "etcd-s3-secret-key": []byte("s3cret"),
	}}
}

// inSecret are settings that name a Secret alone.
func inSecret(t *testing.T) *config.EtcdS3 {
	t.Helper()
	s, err := config.DefaultServer()
	if err != nil {
		t.Fatal(err)
	}
	s.EtcdS3.Enabled, s.EtcdS3.ConfigSecret = true, "s3"
	return &s.EtcdS3
}

func opener(t *testing.T, objects ...runtime.Object) (*fake.Clientset, archive.Open) {
	t.Helper()
	client := fake.NewClientset(objects...)
	open, err := Settings(inSecret(t), func() (corev1.CoreV1Interface, error) { return client.CoreV1(), nil })
	if err != nil {
		t.Fatal(err)
	}
	return client, open
}

// TestTheSecretIsReadEachTime: it need not be there at first, and what it has next counts next.
func TestTheSecretIsReadEachTime(t *testing.T) {
	client, open := opener(t, secret("default", "elsewhere"))
	if _, err := open(t.Context()); !errors.Is(err, config.ErrNoSecret) ||
		!strings.Contains(err.Error(), "--etcd-s3-config-secret") {
		t.Errorf("without a Secret: %v", err)
	}
	api := client.CoreV1().Secrets("kube-system")
	if _, err := api.Create(t.Context(), secret("kube-system", "one"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if b, err := open(t.Context()); err != nil || b.Location() != "s3://one" {
		t.Errorf("%v, want the bucket of the Secret", err)
	}
	if _, err := api.Update(t.Context(), secret("kube-system", "two"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if b, err := open(t.Context()); err != nil || b.Location() != "s3://two" {
		t.Errorf("%v, want the bucket that the Secret has now", err)
	}
}

// TestCAsOfAConfigMap: one that is named has to be there, and to have certificates.
func TestCAsOfAConfigMap(t *testing.T) {
	named := secret("kube-system", "b")
	named.Data[config.S3CAName] = []byte("cas")
	var in *problem.Input
	_, open := opener(t, named)
	if _, err := open(t.Context()); !errors.Is(err, config.ErrNoSecret) || !errors.As(err, &in) || in.Value != "cas" ||
		!strings.Contains(in.Source, config.S3CAName) {
		t.Errorf("without the ConfigMap: %v", err)
	}
	_, open = opener(t, named, &v1.ConfigMap{ObjectMeta: meta("kube-system", "cas"),
		Data: map[string]string{"ca.crt": "none"}})
	if _, err := open(t.Context()); !errors.As(err, &in) ||
		in.Source != `Secret kube-system/s3: key "etcd-s3-endpoint-ca"` {
		t.Errorf("without a certificate in it: %v", err)
	}
}

// TestOtherSettings: without a Secret, or beside one, the API is not asked.
func TestOtherSettings(t *testing.T) {
	nobody := func() (corev1.CoreV1Interface, error) { return nil, errors.New("asked") }
	s := inSecret(t)
	s.Bucket = "given"
	open, err := Settings(s, nobody)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := open(t.Context()); err != nil || b.Location() != "s3://given" {
		t.Error(err)
	}
	s.Enabled = false
	if open, err := Settings(s, nobody); open != nil || err != nil {
		t.Errorf("a bucket that is off: %v", err)
	}
	if open, err = Settings(inSecret(t), nobody); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t.Context()); err == nil || !strings.Contains(err.Error(), "kube-system/s3: asked") {
		t.Errorf("an API that does not answer: %v", err)
	}
}
