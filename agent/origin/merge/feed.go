package merge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/component"
)

// listTimeout is how long one list of a partition may last.
const listTimeout = 30 * time.Second

// feed fills a set with what one partition has.
type feed struct {
	set      *set
	from     *source
	client   rest.Interface
	selector string // the field selector
	files    *checkpoint
	// admitted is closed when what is on disk of the partition counts.
	admitted <-chan struct{}
	patience time.Duration
	// listTimeout is how long one list may last.
	listTimeout time.Duration
	log         *logrus.Entry

	failed  chan struct{} // closed when a list failed
	fail    sync.Once
	away    bool // the last list failed; used by the reflector only
	settled sync.WaitGroup
}

// newClient returns a client of one group of a partition's API.
func newClient(partition string, rt http.RoundTripper, k kind) (rest.Interface, error) {
	gv, api := k.resource.GroupVersion(), "/apis"
	if gv.Group == "" {
		api = "/api"
	}
	return rest.RESTClientForConfigAndClient(&rest.Config{
		Host: "https://" + partition, APIPath: api, QPS: -1, UserAgent: "a4s/origin",
		ContentConfig: rest.ContentConfig{
			GroupVersion: &gv, NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
			ContentType:        runtime.ContentTypeProtobuf,
			AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
		},
	}, &http.Client{Transport: rt})
}

// run follows the partition until ctx ends.
func (f *feed) run(ctx context.Context) {
	f.failed = make(chan struct{})
	f.settled.Go(func() { f.fallBack(ctx) })
	defer f.settled.Wait()
	cache.NewReflectorWithOptions(listWatch{f.listWatch()}, f.set.item(), f, cache.ReflectorOptions{
		Name: f.from.name + " " + f.set.resource.Resource,
		Backoff: &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10,
			Cap: 10 * time.Second},
	}).RunWithContext(ctx)
}

// fallBack waits for the partition, but not long, and takes then what it said
// before this process.
func (f *feed) fallBack(ctx context.Context) {
	timer := time.NewTimer(f.patience)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.failed:
	case <-ctx.Done():
		return
	}
	pods := f.set.resource == podsResource
	unknownYet := func(err error) {
		if f.set.learn(f.from, (*knowledge).silent, nil) && pods {
			f.log.WithError(err).Errorf("the pods of partition %s on this node are not known; no pod starts "+
				"until it was reached", f.from.name)
		}
	}
	select {
	case <-f.admitted:
	default:
		unknownYet(errNotAdmitted)
		select {
		case <-f.admitted:
		case <-ctx.Done():
			return
		}
	}
	for pause := firstPause; ; pause = min(2*pause, calm) {
		objs, err := f.files.read(f.set, f.from)
		switch {
		case err == nil:
			f.set.learn(f.from, (*knowledge).recalled, objs)
			return
		case !pods && (errors.Is(err, fs.ErrNotExist) || pause > f.patience):
			f.set.learn(f.from, (*knowledge).waived, nil)
			return
		}
		unknownYet(err)
		if errors.Is(err, fs.ErrNotExist) || component.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// firstPause is how soon a file is read again that could not be.
const firstPause = 100 * time.Millisecond

// listWatch is without streaming lists, of which a client could not say when one
// takes too long.
type listWatch struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is how client-go asks for that.
func (listWatch) IsWatchListSemanticsUnSupported() bool { return true }

func (f *feed) listWatch() *cache.ListWatch {
	request := func(o *metav1.ListOptions) *rest.Request {
		o.FieldSelector = f.selector
		return f.client.Get().Resource(f.set.resource.Resource).VersionedParams(o, metav1.ParameterCodec)
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, f.listTimeout)
			defer cancel()
			list, err := request(&o).Do(ctx).Get()
			if want := f.set.list(); err == nil && reflect.TypeOf(list) != reflect.TypeOf(want) {
				err = fmt.Errorf("%w: it is a %T, not a %T", errNoList, list, want)
			}
			f.note(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			return request(&o).Watch(ctx)
		},
	}
}

// errNoList is an answer that says nothing of what there is.
var errNoList = errors.New("the answer is no list of the collection")

// note logs when the partition goes away and comes back.
func (f *feed) note(err error) {
	if err != nil {
		f.fail.Do(func() { close(f.failed) })
	}
	switch {
	case err != nil && !f.away:
		f.log.WithError(err).Warnf("partition %s does not list %s; what it said last counts", f.from.name,
			f.set.resource.Resource)
	case err == nil && f.away:
		f.log.Infof("partition %s lists %s again", f.from.name, f.set.resource.Resource)
	}
	f.away = err != nil
}

// selectorFor is what a partition is asked for.
func selectorFor(k kind, node string) string {
	switch k.resource {
	case podsResource, requestsResource: // a node may read its own only
		return fields.OneTermEqualSelector(fieldNode, node).String()
	case nodeResource:
		return fields.OneTermEqualSelector("metadata.name", node).String()
	}
	return ""
}

func (f *feed) adopt(obj any) (runtime.Object, error) {
	if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = d.Obj
	}
	o, ok := obj.(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("partition %s sent %T", f.from.name, obj)
	}
	closePorts(o, f.from.taken)
	return o, f.set.adopt(f.from.qualifier(), o)
}

// Add implements cache.ReflectorStore.
func (f *feed) Add(obj any) error { return f.Update(obj) }

// Update implements cache.ReflectorStore.
func (f *feed) Update(obj any) error {
	o, err := f.adopt(obj)
	if err == nil {
		f.set.put(f.from, o)
	}
	return err
}

// Delete implements cache.ReflectorStore.
func (f *feed) Delete(obj any) error {
	o, err := f.adopt(obj)
	if err != nil {
		return err
	}
	return f.set.drop(f.from, o)
}

// Replace implements cache.ReflectorStore.
func (f *feed) Replace(list []any, _ string) error {
	objs := make([]runtime.Object, 0, len(list))
	for _, obj := range list {
		o, err := f.adopt(obj)
		if err != nil {
			return err
		}
		objs = append(objs, o)
	}
	return f.set.replace(f.from, objs)
}

// Resync implements cache.ReflectorStore.
func (f *feed) Resync() error { return nil }
