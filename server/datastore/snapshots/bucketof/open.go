package bucketof

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/server/datastore/snapshots/archive"
)

// readTimeout bounds the reading of the Secret and its ConfigMap.
const readTimeout = 15 * time.Second

// Client gives access to the system space with the rights of its administrator.
type Client = func() (corev1.CoreV1Interface, error)

// Settings returns what opens the bucket of the settings, nil if S3 storage is off. Settings were
// checked; what a Secret has is checked when the bucket is opened.
func Settings(s *config.EtcdS3, client Client) (archive.Open, error) {
	if !s.Enabled {
		return nil, nil //nolint:nilnil // off is no error
	}
	if s.InSecret() {
		return func(ctx context.Context) (*archive.Bucket, error) { return open(ctx, s, client) }, nil
	}
	b, err := archive.NewBucket(s)
	if err != nil {
		return nil, err
	}
	return func(context.Context) (*archive.Bucket, error) { return b, nil }, nil
}

func open(ctx context.Context, s *config.EtcdS3, client Client) (*archive.Bucket, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	api, err := client()
	if err != nil {
		return nil, unread(s, err)
	}
	secret, err := api.Secrets(config.S3SecretNamespace).Get(ctx, s.ConfigSecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, s.AbsentSecret("")
	}
	if err != nil {
		return nil, unread(s, err)
	}
	cas, err := readCAs(ctx, s, api, string(secret.Data[config.S3CAName]))
	if err != nil {
		return nil, err
	}
	of, err := s.OfSecret(secret.Data, cas...)
	if err != nil {
		return nil, err
	}
	return archive.NewBucket(of)
}

// readCAs returns what the ConfigMap of this name has, whatever the keys are.
func readCAs(
	ctx context.Context, s *config.EtcdS3, api corev1.CoreV1Interface, name string,
) ([]string, error) {
	if name == "" {
		return nil, nil
	}
	found, err := api.ConfigMaps(config.S3SecretNamespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, s.AbsentSecret(name)
	}
	if err != nil {
		return nil, unread(s, err)
	}
	cas := slices.Collect(maps.Values(found.Data))
	for _, data := range found.BinaryData {
		cas = append(cas, string(data))
	}
	return cas, nil
}

func unread(s *config.EtcdS3, err error) error {
	return fmt.Errorf("reading the settings of S3 storage in the Secret %s/%s: %w", config.S3SecretNamespace,
		s.ConfigSecret, err)
}
