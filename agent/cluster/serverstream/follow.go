package serverstream

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/rest"
)

// Back-off between two connections.
const (
	minPause = 500 * time.Millisecond
	maxPause = 30 * time.Second
)

// Options say what to follow.
type Options struct {
	// Config is the node's credential for a server.
	Config *rest.Config
	// Path is that of the stream.
	Path string
	// Silence is how long a stream may be silent before it counts as broken.
	Silence time.Duration
	// Warning is logged when no server answers for a while.
	Warning string
	Log     *logrus.Entry
}

// Reader takes the lines of one connection.
type Reader[T any] interface {
	// Line takes over one line. It reports whether everything was told by now.
	Line(T) (complete bool)
}

// StatusError is the answer of a server that does not stream.
type StatusError struct {
	Code    int
	Message string
}

// Reason is that of a refusal of a server, "" for none.
func (e *StatusError) Reason() string {
	var status struct {
		Reason string `json:"reason"`
	}
	_ = json.Unmarshal([]byte(e.Message), &status) // what is none has no reason
	return status.Reason
}

// Error implements error.
func (e *StatusError) Error() string {
	return fmt.Sprintf("the server answered %d: %s", e.Code, e.Message)
}

// Follow reads streams until ctx ends, each with a Reader of its own. ended,
// which may be nil, learns why a stream ended.
func Follow[T any](ctx context.Context, o Options, open func() Reader[T], ended func(error)) error {
	client, err := rest.HTTPClientFor(o.Config)
	if err != nil {
		return fmt.Errorf("client for %s: %w", o.Path, err)
	}
	target, err := url.JoinPath(o.Config.Host, o.Path)
	if err != nil {
		return fmt.Errorf("address of the server: %w", err)
	}
	pause, told := minPause, false
	for {
		complete, err := read(ctx, o.Silence, client, target, open())
		if ctx.Err() != nil {
			return nil
		}
		if ended != nil {
			ended(err)
		}
		if complete {
			pause, told = minPause, false
		}
		if entry := o.Log.WithError(err); !told && pause > 4*minPause {
			told = true
			entry.Warn(o.Warning)
		} else {
			entry.Debugf("the stream of %s ended", o.Path)
		}
		select {
		case <-time.After(pause + rand.N(pause)):
		case <-ctx.Done():
			return nil
		}
		pause = min(2*pause, maxPause)
	}
}

// read follows one stream to its end and reports whether it told everything.
func read[T any](
	ctx context.Context, silence time.Duration, client *http.Client, target string, reader Reader[T],
) (complete bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watchdog := time.AfterFunc(silence, cancel)
	defer watchdog.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return false, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // only for the message
		return false, &StatusError{Code: resp.StatusCode, Message: string(text)}
	}
	lines := json.NewDecoder(resp.Body)
	for {
		var line T
		if err := lines.Decode(&line); err != nil {
			return complete, err
		}
		watchdog.Reset(silence)
		if reader.Line(line) {
			complete = true
		}
	}
}
