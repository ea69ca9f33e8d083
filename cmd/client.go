package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/internal/problem"
)

// requestTimeout bounds one request of a command to the server.
const requestTimeout = 15 * time.Second

// maxBody bounds a response of the supervisor.
const maxBody = 1 << 20

func kubeconfigFlag() cli.Flag {
	return text("kubeconfig", "", "", "admin kubeconfig at `PATH`", "the one that the server of this machine writes")
}

// client talks to a server as its administrator.
type client struct {
	cfg  *rest.Config
	kube kubernetes.Interface
	http *http.Client
	url  string // of the API, without a slash at the end
}

// newClient makes a client from --kubeconfig of a command.
func newClient(c *call) (*client, error) {
	path, source := c.String("kubeconfig"), "--kubeconfig"
	if path == "" {
		path, source = adminKubeconfig(), "admin kubeconfig"
	}
	return clientOf(path, source)
}

// clientOf makes a client from a kubeconfig; source is how users name that.
func clientOf(path, source string) (*client, error) {
	bad := func(err error) error {
		return &problem.Input{Source: source, Value: path, Err: err,
			Want: "the file that a4s server writes at its first start, which only root can read, " +
				"or another one in --kubeconfig"}
	}
	cfg, err := readKubeconfig(path)
	if err != nil {
		return nil, bad(err)
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, bad(err)
	}
	out := &client{cfg: cfg, url: strings.TrimSuffix(base.String(), "/")}
	if out.http, err = rest.HTTPClientFor(cfg); err != nil {
		return nil, bad(err)
	}
	if out.kube, err = kubernetes.NewForConfigAndClient(cfg, out.http); err != nil {
		return nil, bad(err)
	}
	return out, nil
}

// readKubeconfig reads one file.
func readKubeconfig(path string) (*rest.Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, problem.WithoutPath(err)
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return nil, err
	}
	return cfg, complete(cfg)
}

// complete makes a client configuration fit for commands.
func complete(cfg *rest.Config) error {
	cfg.Timeout = requestTimeout
	return rest.LoadTLSFiles(cfg)
}

// do sends a request to the server and decodes the JSON it answers into out.
// A nil out ignores the answer.
func (c *client) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.explain(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return c.explain(err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("server %s answered %s %s with %s%s", c.url, method, path, resp.Status, answer(data))
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("answer of server %s to %s %s: %w", c.url, method, path, err)
	}
	return nil
}

// answer is the reason in the body of a failed request, of which the API
// sends a metav1.Status and others plain text.
func answer(body []byte) string {
	var status metav1.Status
	if err := json.Unmarshal(body, &status); err == nil && status.Message != "" {
		return ": " + status.Message
	}
	text := strings.TrimSpace(string(body))
	const most = 300
	if len(text) > most {
		text = text[:most] + "..."
	}
	if text == "" {
		return ""
	}
	return ": " + text
}

// explain says so if an error means that there is no server to talk to.
func (c *client) explain(err error) error { return explainFor(c.url, err) }

func explainFor(url string, err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return &problem.Precondition{What: "server " + url, Err: errors.New("not running: connection refused"),
			Fix: `start it with "a4s server"; if it should be running, its log says why it is not`}
	}
	return err
}
