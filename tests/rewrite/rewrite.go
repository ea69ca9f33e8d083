package rewrite

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// Getter reads one object, as the clients of client-go do.
type Getter[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*T, error)
}

// Updater writes objects.
type Updater[T any] interface {
	Getter[T]
	Update(ctx context.Context, object *T, options metav1.UpdateOptions) (*T, error)
}

// StatusUpdater writes the status of objects.
type StatusUpdater[T any] interface {
	Getter[T]
	UpdateStatus(ctx context.Context, object *T, options metav1.UpdateOptions) (*T, error)
}

// Object changes an object.
func Object[T any](ctx context.Context, client Updater[T], name string, change func(*T)) (*T, error) {
	return write(ctx, client, client.Update, name, change)
}

// Status changes the status of an object.
func Status[T any](ctx context.Context, client StatusUpdater[T], name string, change func(*T)) (*T, error) {
	return write(ctx, client, client.UpdateStatus, name, change)
}

func write[T any](ctx context.Context, client Getter[T],
	update func(context.Context, *T, metav1.UpdateOptions) (*T, error), name string, change func(*T)) (*T, error) {
	var written *T
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		is, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(is)
		written, err = update(ctx, is, metav1.UpdateOptions{})
		return err
	})
	return written, err
}
