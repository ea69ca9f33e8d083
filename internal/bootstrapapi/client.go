package bootstrapapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/problem"
)

// requestTimeout bounds one request; the API answers from memory and disk.
const requestTimeout = 30 * time.Second

// maxAnswer bounds an answer: a list of every pod that fits on a node.
const maxAnswer = 256 << 20

// Client talks to the API.
type Client struct {
	socket string
	http   *http.Client
}

// NewClient returns a client of the API behind socket.
func NewClient(socket string) *Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	return &Client{socket: socket, http: &http.Client{Timeout: requestTimeout, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		},
	}}}
}

// Create runs the pod in body, which is of that content type
// ("application/json" or "application/yaml"), and returns it as it runs.
func (c *Client) Create(ctx context.Context, body []byte, contentType string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, c.do(ctx, http.MethodPost, PathPods, body, contentType, pod)
}

// List returns the pods of the API, also those that are persisted.
func (c *Client) List(ctx context.Context) (*corev1.PodList, error) {
	list := &corev1.PodList{}
	return list, c.do(ctx, http.MethodGet, PathPods, nil, "", list)
}

// Get returns one pod.
func (c *Client) Get(ctx context.Context, uid types.UID) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, c.do(ctx, http.MethodGet, PathPods+"/"+url.PathEscape(string(uid)), nil, "", pod)
}

// Delete ends a pod that is not persisted yet and returns its last state.
func (c *Client) Delete(ctx context.Context, uid types.UID) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, c.do(ctx, http.MethodDelete, PathPods+"/"+url.PathEscape(string(uid)), nil, "", pod)
}

// do sends a request. A refusal is an *apierrors.StatusError.
func (c *Client) do(ctx context.Context, method, path string, body []byte, contentType string, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://a4s"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.explain(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return c.explain(err)
	}
	if resp.StatusCode >= 300 {
		status := metav1.Status{}
		if json.Unmarshal(data, &status) != nil || status.Message == "" {
			status = metav1.Status{Status: metav1.StatusFailure, Code: int32(resp.StatusCode), Message: resp.Status}
		}
		return &apierrors.StatusError{ErrStatus: status}
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("the answer at %s: %w", c.socket, err)
	}
	return nil
}

// explain says what to do when there is nobody behind the socket.
func (c *Client) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return &problem.Precondition{What: "bootstrap pod API at " + c.socket, Err: errors.New("not served"),
			Fix: "start the node with --bootstrap-pod-api (a4s agent or a4s server); it is off by default"}
	case errors.Is(err, fs.ErrPermission):
		return &problem.Precondition{What: "bootstrap pod API at " + c.socket, Err: errors.New("permission denied"),
			Fix: "run this as root"}
	}
	return err
}
