package groupwatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/ownership"
	"github.com/a4s-io/a4s/internal/partitionapi"
)

// reader reads the configurations.
type reader interface {
	List(ctx context.Context, o metav1.ListOptions) (*partitionapi.DataPartitionConfigList, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

const (
	// firstAgain and lastAgain are how soon the configurations are asked for again.
	firstAgain, lastAgain = 50 * time.Millisecond, 5 * time.Second
	// lasting is how long a watch lasts at least that went well.
	lasting = time.Second
	// watchTime is how long a watch of the configurations lasts at least.
	watchTime = 5 * time.Minute
)

// follower knows the configurations as of a revision. It is no reflector: that lists again after
// errors of any kind, and between two lists anything may have happened, so all merged watches would
// have to begin anew, which each list all objects. It asks for what it missed as long as a server
// has it.
type follower struct {
	groups *Groups
	client reader
	byName map[string]ownership.Config
	rev    string
	away   bool // it cannot be read
}

// follow lists and watches the configurations until ctx ends.
func (g *Groups) follow(ctx context.Context, client reader) {
	f := &follower{groups: g, client: client}
	for pause := firstAgain; ctx.Err() == nil; pause = min(2*pause, lastAgain) {
		began := time.Now()
		err := f.read(ctx)
		if ctx.Err() != nil {
			return
		}
		f.note(err)
		if time.Since(began) >= lasting {
			pause = firstAgain
		}
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			f.rev = ""
		}
		// At the same moment all nodes lose the server that ends.
		if component.Sleep(ctx, pause/2+rand.N(pause)) != nil {
			return
		}
	}
}

// read lists the configurations, unless they are known, and watches them until that ends.
func (f *follower) read(ctx context.Context) error {
	if f.rev == "" {
		list, err := f.client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		f.byName = map[string]ownership.Config{}
		for i := range list.Items {
			f.put(&list.Items[i])
		}
		f.rev = list.ResourceVersion
		if err := f.tell(true); err != nil {
			return err
		}
	}
	seconds := int64((watchTime + rand.N(watchTime)) / time.Second)
	w, err := f.client.Watch(ctx, metav1.ListOptions{
		ResourceVersion: f.rev, AllowWatchBookmarks: true, TimeoutSeconds: &seconds})
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if err := f.take(e); err != nil {
			return err
		}
	}
	return nil
}

// errEvent is one that a watch of the configurations should not have.
var errEvent = errors.New("an event is none of a configuration")

func (f *follower) take(e watch.Event) error {
	if e.Type == watch.Error {
		return apierrors.FromObject(e.Object)
	}
	c, ok := e.Object.(*partitionapi.DataPartitionConfig)
	if !ok {
		return fmt.Errorf("%w: %s of %T", errEvent, e.Type, e.Object)
	}
	f.rev = c.ResourceVersion
	switch e.Type {
	case watch.Bookmark:
		return nil
	case watch.Deleted:
		delete(f.byName, c.Name)
	default:
		f.put(c)
	}
	return f.tell(false)
}

func (f *follower) put(c *partitionapi.DataPartitionConfig) {
	f.byName[c.Name] = ownership.NewConfig(c, c.CreationTimestamp.UnixNano())
}

// tell hands on what is known. listed says that what was before is not.
func (f *follower) tell(listed bool) error {
	at, err := strconv.ParseInt(f.rev, 10, 64)
	if err != nil {
		f.rev = ""
		return fmt.Errorf("the revision of the configurations: %w", err)
	}
	all := make([]ownership.Config, 0, len(f.byName))
	for _, config := range f.byName {
		all = append(all, config)
	}
	f.groups.set(all, at, listed)
	return nil
}

// note logs when the configurations cannot be read and when they can again.
func (f *follower) note(err error) {
	switch {
	case err != nil && !f.away:
		f.groups.log.WithError(err).Warn("cannot follow the configurations of service groups; will try again")
	case err == nil && f.away:
		f.groups.log.Info("the configurations of service groups are followed again")
	}
	f.away = err != nil
}
