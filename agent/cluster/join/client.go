package join

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// requestTimeout bounds one request: longer than the server waits for its
// own API.
const requestTimeout = 30 * time.Second

// answerError is an answer of the server other than 200.
type answerError struct {
	code    int
	reason  string
	field   string // of the first cause
	message string
	// retryAfter is what the server asks for; 0 if nothing.
	retryAfter time.Duration
	// withToken says that the request carried the token.
	withToken bool
}

func (e *answerError) Error() string {
	return fmt.Sprintf("the server answered %d: %s", e.code, e.message)
}

func newHTTPClient(config *tls.Config) *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return &http.Client{
		Timeout: requestTimeout,
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         dialer.DialContext,
			TLSClientConfig:     config,
			TLSHandshakeTimeout: 10 * time.Second,
			ForceAttemptHTTP2:   true,
		},
		// A server of a4s never redirects; following somebody who does
		// could carry the credential elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// do sends one request and returns the body of a 200.
func do(ctx context.Context, c *http.Client, method, url, authorization string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, joinapi.MaxBody+1))
	if err != nil {
		return nil, err
	}
	if len(data) > joinapi.MaxBody {
		return nil, errors.New("the server's answer is larger than 1 MiB")
	}
	if resp.StatusCode != http.StatusOK {
		e := newAnswerError(resp, data)
		e.withToken = authorization != ""
		return nil, e
	}
	return data, nil
}

// newAnswerError reads the metav1.Status of a refusal; an answer of something
// else on the way (a proxy, a load balancer) is told by its status line.
func newAnswerError(resp *http.Response, data []byte) *answerError {
	e := &answerError{code: resp.StatusCode, message: resp.Status}
	var status struct {
		Message string `json:"message"`
		Reason  string `json:"reason"`
		Details struct {
			Causes []struct {
				Field string `json:"field"`
			} `json:"causes"`
		} `json:"details"`
	}
	if json.Unmarshal(data, &status) == nil && status.Message != "" {
		e.message, e.reason = status.Message, status.Reason
		if len(status.Details.Causes) > 0 {
			e.field = status.Details.Causes[0].Field
		}
	}
	if n, err := strconv.Atoi(strings.TrimSpace(resp.Header.Get("Retry-After"))); err == nil && n > 0 {
		e.retryAfter = time.Duration(n) * time.Second
	}
	return e
}

// connection talks to a server whose CA is verified.
type connection struct {
	j             *joiner
	http          *http.Client
	authorization string // empty when the certificate is the credential
}

// connect prepares a connection with the node's certificate, or with the
// token if there is no good certificate.
func (j *joiner) connect(ca *authority) (*connection, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca.pool}
	conn := &connection{j: j}
	if cert := j.ownCert(); cert != nil && ca.pinned && !j.useToken {
		config.Certificates = []tls.Certificate{*cert}
	} else if j.token != nil {
		conn.authorization = j.token.Authorization()
	} else {
		return nil, noToken()
	}
	conn.http = newHTTPClient(config)
	return conn, nil
}

func (c *connection) close() { c.http.CloseIdleConnections() }

func (c *connection) config(ctx context.Context) (joinapi.ClusterConfig, error) {
	var out joinapi.ClusterConfig
	err := c.call(ctx, http.MethodGet, joinapi.PathConfig, nil, &out)
	return out, err
}

func (c *connection) node(ctx context.Context, req *joinapi.NodeRequest) (*joinapi.NodeResponse, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	out := &joinapi.NodeResponse{}
	return out, c.call(ctx, http.MethodPost, joinapi.PathNode, body, out)
}

func (c *connection) call(ctx context.Context, method, path string, body []byte, out any) error {
	data, err := do(ctx, c.http, method, c.j.url.JoinPath(path).String(), c.authorization, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("the server's answer at %s: %w", path, err)
	}
	return nil
}
