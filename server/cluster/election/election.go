package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/a4s-io/a4s/internal/component"
)

// Lease is the name of the Lease in kube-system.
const Lease = "a4s-controllers"

// Upstream's own: another server leads after this time at most, and one that
// is only slow keeps the lead.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// errLost ends what ran while this server led.
var errLost = errors.New("this server does not lead any more")

// Election knows whether this server leads. A nil Election is that of a server
// without others: it always leads.
type Election struct {
	name   string
	config *rest.Config
	log    *logrus.Entry

	mu sync.Mutex
	// term is the context of the current lead, nil while another leads.
	term context.Context
	// changed is closed and replaced when term changes.
	changed chan struct{}
	// other is closed once another server was seen to lead.
	other     chan struct{}
	otherOnce sync.Once
}

// New returns the election in which a server stands under the name of its node.
func New(name string, config *rest.Config, log *logrus.Entry) *Election {
	return &Election{name: name, config: config, log: log, changed: make(chan struct{}), other: make(chan struct{})}
}

// Component takes part in the election until it ends.
func (e *Election) Component() component.Component {
	return component.Component{Name: "leader-election", Run: func(ctx context.Context, ready func()) error {
		config := rest.CopyConfig(e.config)
		config.Timeout = renewDeadline / 2 // one try must not take the time of all
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("making a client: %w", err)
		}
		ready()
		for ctx.Err() == nil {
			elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
				Name: Lease,
				Lock: &resourcelock.LeaseLock{
					LeaseMeta:  metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: Lease},
					Client:     client.CoordinationV1(),
					LockConfig: resourcelock.ResourceLockConfig{Identity: e.name},
				},
				LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
				ReleaseOnCancel: true,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(ctx context.Context) { e.begin(ctx) },
					OnStoppedLeading: e.end,
					OnNewLeader:      e.see,
				},
			})
			if err != nil {
				return fmt.Errorf("preparing the election: %w", err)
			}
			elector.Run(ctx)
		}
		return nil
	}}
}

// see notes who leads.
func (e *Election) see(name string) {
	if name == e.name {
		e.log.Info("This server leads: it runs the controllers and the scheduler")
		return
	}
	e.log.Infof("Server %s leads: controllers and scheduler of this one stand by", name)
	e.otherOnce.Do(func() { close(e.other) })
}

func (e *Election) begin(term context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term = term
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *Election) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term != nil {
		e.log.Info("This server does not lead any more")
	}
	e.term = nil
}

// Await blocks until this server leads. The context that it returns ends with
// ctx, or with errLost as its cause when the lead is lost.
func (e *Election) Await(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if e == nil {
		ctx, cancel := context.WithCancel(ctx)
		return ctx, cancel, nil
	}
	for {
		e.mu.Lock()
		term, changed := e.term, e.changed
		e.mu.Unlock()
		if term != nil && term.Err() == nil {
			led, cancel := context.WithCancelCause(ctx)
			stop := context.AfterFunc(term, func() { cancel(errLost) })
			return led, func() { stop(); cancel(context.Canceled) }, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// Only is c on the server that leads. It is ready where it runs, and where
// another server was seen to lead.
func (e *Election) Only(c component.Component) component.Component {
	if e == nil {
		return c
	}
	inner := c.Run
	c.Run = func(ctx context.Context, ready func()) error {
		waiting, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			select {
			case <-e.other:
				ready()
			case <-waiting.Done():
			}
		}()
		for {
			led, cancel, err := e.Await(ctx)
			if err != nil {
				return nil // ctx ended
			}
			err = inner(led, ready)
			lost := errors.Is(context.Cause(led), errLost)
			cancel()
			if !lost || ctx.Err() != nil {
				return err
			}
		}
	}
	return c
}
