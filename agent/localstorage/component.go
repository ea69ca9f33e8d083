package localstorage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/joinapi"
)

// Name is the name of the component.
const Name = "local-storage-node"

const (
	// minPause and maxPause bound the back-off between two connections.
	minPause = 500 * time.Millisecond
	maxPause = 30 * time.Second
	// silence is how long a stream may be silent before it counts as broken.
	silence = 3 * joinapi.LocalVolumesAlive
	// noSuchPath is the pause when the cluster has no local volumes.
	noSuchPath = time.Minute
	// oneRemoval is how long a volume is removed at a time, and removals all of them together, before
	// something else is looked at.
	oneRemoval = time.Second
	removals   = 5 * time.Second
	// answerTimeout bounds one answer.
	answerTimeout = 20 * time.Second
)

// Options configure the local volumes of one node.
type Options struct {
	// Config is the node's credential for a server.
	Config *rest.Config
	// Log may be nil.
	Log *logrus.Entry
}

// New returns the component. It is ready at once: without a server, the
// volumes that there are stay as they are.
func New(o Options) component.Component {
	return component.Component{Name: Name, Run: func(ctx context.Context, ready func()) error {
		if o.Log == nil {
			o.Log = logrus.WithField("component", Name)
		}
		n := &node{Options: o}
		var err error
		if n.client, err = rest.HTTPClientFor(o.Config); err != nil {
			return fmt.Errorf("client for local volumes: %w", err)
		}
		ready()
		n.follow(ctx)
		return nil
	}}
}

type node struct {
	Options
	client *http.Client
}

// follow does what servers say until ctx ends.
func (n *node) follow(ctx context.Context) {
	pause := minPause
	for ctx.Err() == nil {
		wait, err := n.read(ctx)
		if wait > 0 {
			pause = wait
		}
		n.Log.WithError(err).Debug("the stream of local volumes ended")
		select {
		case <-time.After(pause + rand.N(pause)):
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, max(maxPause, wait))
	}
}

// read follows one stream to its end. It returns how long to wait before the
// next, 0 to leave that open.
func (n *node) read(ctx context.Context) (wait time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watchdog := time.AfterFunc(silence, cancel)
	defer watchdog.Stop()
	resp, err := n.request(ctx, http.MethodGet, joinapi.PathLocalVolumes, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound: // turned off, or an older server
		return noSuchPath, refused(resp)
	default:
		return 0, refused(resp)
	}
	lines, ended := make(chan joinapi.LocalVolumes), make(chan error, 1)
	go func() {
		for in := json.NewDecoder(resp.Body); ; {
			var work joinapi.LocalVolumes
			if err := in.Decode(&work); err != nil {
				ended <- err
				return
			}
			watchdog.Stop()
			select {
			case lines <- work:
			case <-ctx.Done():
				ended <- ctx.Err()
				return
			}
			watchdog.Reset(silence)
		}
	}()
	var left []joinapi.LocalVolume
	for {
		var again <-chan time.Time
		if len(left) > 0 {
			again = time.After(oneRemoval) // a pause as long as a removal, for others who use the disk
		}
		select {
		case work := <-lines:
			wait = minPause // the stream works
			left = work.Volumes
		case <-again:
		case err := <-ended:
			return wait, err
		}
		if left, err = n.doAll(ctx, left); err != nil {
			return wait, err // the next stream begins with all that is left
		}
	}
}

// doAll does what there is to do, and returns what is left. What pods wait for comes first. Each removal has a
// moment, and all of them a few: a tenant's volume that never ends holds up nobody's.
func (n *node) doAll(ctx context.Context, volumes []joinapi.LocalVolume) (left []joinapi.LocalVolume, err error) {
	rand.Shuffle(len(volumes), func(i, j int) { volumes[i], volumes[j] = volumes[j], volumes[i] })
	for _, v := range volumes {
		if !v.Remove {
			if err := n.do(ctx, v, time.Time{}); err != nil {
				return nil, err
			}
		}
	}
	until := time.Now().Add(removals)
	for _, v := range volumes {
		if !v.Remove {
			continue
		}
		if time.Now().After(until) {
			left = append(left, v)
			continue
		}
		switch err := n.do(ctx, v, time.Now().Add(oneRemoval)); {
		case errors.Is(err, errMore):
			left = append(left, v)
		case err != nil:
			return nil, err
		}
	}
	return left, nil
}

// do makes or removes one volume and says so. A removal that meets its deadline returns errMore; another error is
// one of the connection.
func (n *node) do(ctx context.Context, v joinapi.LocalVolume, deadline time.Time) error {
	done := joinapi.LocalVolumeDone{Name: v.Name, UID: v.UID, Removed: v.Remove}
	log := n.Log.WithField("volume", v.Name)
	var err error
	if v.Remove {
		err = remove(v, deadline)
	} else {
		err = create(v)
	}
	if errors.Is(err, errMore) {
		log.Debug("the volume is being removed")
		return errMore
	}
	if err != nil {
		done.Error = err.Error()
		log.WithError(err).Warn("a local volume waits; this is tried again")
	}
	body, err := json.Marshal(done)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	resp, err := n.request(ctx, http.MethodPost, joinapi.PathLocalVolumeDone, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		log.Debug("the volume is gone by now")
	case resp.StatusCode != http.StatusNoContent:
		return refused(resp)
	case done.Error == "" && v.Remove:
		log.Infof("%s was removed", v.Path)
	}
	return nil
}

func (n *node) request(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	target, err := url.JoinPath(n.Config.Host, path)
	if err != nil {
		return nil, fmt.Errorf("address of the server: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return n.client.Do(req)
}

func refused(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // only for the message
	return fmt.Errorf("the server answered %s: %s", resp.Status, text)
}
