package sides

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// glance is how often somebody looks who waits.
const glance = 200 * time.Millisecond

// Efficient is the same access with the encoding that programs use.
func Efficient(access *rest.Config) *rest.Config {
	config := rest.CopyConfig(access)
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config
}

// Await tries until it succeeds.
func Await(ctx context.Context, what string, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w: %w", what, ctx.Err(), err)
		case <-time.After(glance):
		}
	}
}
