package noderuntime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/a4s-io/a4s/internal/rootsocket"
)

// Socket is the file name of the socket that the running node is asked on.
const Socket = "runtimes.sock"

// Path is where the runtimes are: GET lists them, POST of a Runtime adds one,
// DELETE of Path/name, with force=true if need be, removes one.
const Path = "/runtimes"

// Refusal is what the node answers when it does not do what was asked.
type Refusal struct {
	Error string `json:"error"`
}

// ErrRefused is a request that the node refused, and why.
var ErrRefused = errors.New("refused")

// Client asks the running node.
type Client struct {
	// Socket is the path of its socket.
	Socket string
}

// List returns all runtimes of the node.
func (c Client) List(ctx context.Context) ([]State, error) {
	var states []State
	return states, c.do(ctx, http.MethodGet, Path, nil, &states)
}

// Add registers a runtime.
func (c Client) Add(ctx context.Context, r Runtime) (State, error) {
	var state State
	return state, c.do(ctx, http.MethodPost, Path, r, &state)
}

// Remove takes a runtime out, also one that has pods if force is set.
func (c Client) Remove(ctx context.Context, name string, force bool) error {
	path := Path + "/" + url.PathEscape(name)
	if force {
		path += "?force=true"
	}
	return c.do(ctx, http.MethodDelete, path, nil, nil)
}

func (c Client) do(ctx context.Context, method, path string, body, into any) error {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("asking the node: %w", err)
		}
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://node"+path, content)
	if err != nil {
		return fmt.Errorf("asking the node: %w", err)
	}
	transport := &http.Transport{DialContext: rootsocket.Dial(c.Socket)}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // the address in it is made up
		}
		return fmt.Errorf("asking the node: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		var r Refusal
		if err := json.NewDecoder(resp.Body).Decode(&r); err != nil || r.Error == "" {
			r.Error = resp.Status
		}
		return fmt.Errorf("%w: %s", ErrRefused, r.Error)
	}
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("the node's answer: %w", err)
	}
	return nil
}
