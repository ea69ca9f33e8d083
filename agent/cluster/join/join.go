package join

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/jointoken"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
)

// DefaultNodePasswordFile is where the node keeps its password. It is outside
// the data directory, so that a node which is set up anew keeps its name.
const DefaultNodePasswordFile = "/etc/a4s/node/password"

// Flags that errors name.
const (
	flagServer   = "--server"
	flagToken    = "--token"
	flagNodeName = "--node-name"
	flagNodeIP   = "--node-ip"
)

// Options says who joins what.
type Options struct {
	// ServerURL is "https://host:port".
	ServerURL string
	// Servers returns the URLs of the servers to try, in this order; it is
	// asked before each attempt. Nil means ServerURL alone.
	Servers func(ctx context.Context) []string
	// Token is the join token. It may be empty on a node that has joined
	// before.
	Token string
	// NodeName is the name of the Node.
	NodeName string
	// NodeIPs are the addresses of the node, and FurtherIPs others that it will say it has.
	NodeIPs, FurtherIPs []string
	// Dir is the agent directory; the files go to its subdirectory tls.
	Dir string
	// NodePasswordFile is made when it does not exist; empty means
	// DefaultNodePasswordFile.
	NodePasswordFile string
	// Log is optional.
	Log *logrus.Entry
}

// Result is what a node has after joining: paths of PEM files, and the
// configuration of the cluster.
type Result struct {
	NodeName string
	// ClientCert and ClientKey identify the node as system:node:<name>.
	ClientCert, ClientKey string
	// ServingCert and ServingKey are for the kubelet's port.
	ServingCert, ServingKey string
	// ClientCA signs the clients that the kubelet accepts.
	ClientCA string
	// ServerCA signs the servers that the node trusts.
	ServerCA string

	Config joinapi.ClusterConfig
}

// joiner is one join in progress.
type joiner struct {
	Options
	url      *url.URL         // of the server that is asked
	token    *jointoken.Token // nil if there is none
	password string
	files    Result // the paths
	// useToken says that the server refused the node's certificate.
	useToken bool
	warned   bool // about trust on first use
}

// Join joins the cluster and returns once the node has everything it needs.
// While the server cannot be reached or is not ready, it tries again until
// ctx ends. A *problem.Input or *problem.Precondition is final: the user has
// to change something.
func Join(ctx context.Context, opts Options) (*Result, error) {
	j, err := newJoiner(opts)
	if err != nil {
		return nil, err
	}
	var config joinapi.ClusterConfig
	if err := j.retry(ctx, func(ctx context.Context) error {
		config, err = j.attempt(ctx)
		return err
	}); err != nil {
		return nil, err
	}
	if err := j.save(config); err != nil {
		return nil, err
	}
	j.Log.WithField("server", j.url.String()).WithField("node", j.NodeName).Info("joined the cluster")
	result := j.files
	result.Config = config
	return &result, nil
}

func newJoiner(opts Options) (*joiner, error) {
	if opts.Log == nil {
		opts.Log = logrus.WithField("component", "join")
	}
	if opts.NodePasswordFile == "" {
		opts.NodePasswordFile = DefaultNodePasswordFile
	}
	tls := filepath.Join(opts.Dir, "tls")
	files := pki.NodeFilesIn(tls)
	j := &joiner{Options: opts, files: Result{
		NodeName:   opts.NodeName,
		ClientCert: files.Client.Cert, ClientKey: files.Client.Key,
		ServingCert: files.Serving.Cert, ServingKey: files.Serving.Key,
		ClientCA: files.ClientCA, ServerCA: files.ServerCA,
	}}
	var err error
	if j.url, err = parseServerURL(opts.ServerURL); err != nil {
		return nil, err
	}
	if j.Servers == nil {
		j.Servers = func(context.Context) []string { return []string{opts.ServerURL} }
	}
	if opts.Token != "" {
		t, err := jointoken.Parse(flagToken, opts.Token)
		if err != nil {
			return nil, err
		}
		j.token = &t
	}
	if err := os.MkdirAll(tls, 0o700); err != nil {
		return nil, err
	}
	if j.password, err = ensurePassword(opts.NodePasswordFile); err != nil {
		return nil, err
	}
	return j, nil
}

// parseServerURL accepts "https://host:port"; a path would be ignored by the
// node's other clients, so it is refused.
func parseServerURL(text string) (*url.URL, error) {
	bad := func(err error) error {
		return &problem.Input{Source: flagServer, Value: text, Err: err, Want: "a URL such as https://192.0.2.1:6443"}
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, bad(errors.Unwrap(err)) // the outer error repeats the value
	}
	if u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" ||
		u.RawQuery != "" || u.Fragment != "" {
		return nil, bad(nil)
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// attempt goes through the servers until one lets the node join. What a server
// says about the node holds for all of them; one that is not to be trusted says
// nothing about the others.
func (j *joiner) attempt(ctx context.Context) (joinapi.ClusterConfig, error) {
	var failed []error
	var refused error // of a server that is not to be trusted
	for _, server := range j.Servers(ctx) {
		u, err := parseServerURL(server)
		if err != nil {
			return joinapi.ClusterConfig{}, err
		}
		j.url = u
		config, err := j.ask(ctx)
		if errors.Is(err, errRetryNow) {
			config, err = j.ask(ctx)
		}
		var doubt *distrustError
		switch {
		case err == nil:
			return config, nil
		case errors.As(err, &doubt):
			refused = err
			j.Log.WithField("server", u.String()).WithError(err).Debug("this server is not to be trusted")
		case isFinal(err):
			return config, err
		default:
			failed = append(failed, &serverError{server: u.String(), err: err})
		}
	}
	if len(failed) == 0 && refused != nil {
		return joinapi.ClusterConfig{}, refused
	}
	if refused != nil {
		failed = append(failed, errors.New(refused.Error())) // in words only: it is not final
	}
	// The others may come back.
	return joinapi.ClusterConfig{}, &attemptError{failed}
}

// ask goes through the whole join with one server.
func (j *joiner) ask(ctx context.Context) (joinapi.ClusterConfig, error) {
	var config joinapi.ClusterConfig
	ca, err := j.trust(ctx)
	if err != nil {
		return config, err
	}
	conn, err := j.connect(ca)
	if err != nil {
		return config, err
	}
	defer conn.close()
	if config, err = conn.config(ctx); err != nil {
		return config, j.explain(err)
	}
	if err := j.fetchCerts(ctx, conn, ca); err != nil {
		return config, j.explain(err)
	}
	return config, nil
}

// explain turns the server's final answers into problems of the user, and
// leaves the others to be retried.
func (j *joiner) explain(err error) error {
	var answer *answerError
	if !errors.As(err, &answer) {
		return j.explainTLS(err)
	}
	refused := errors.New(answer.message)
	switch {
	case answer.code == 401 && !answer.withToken && j.token != nil:
		// The certificate may be from before the cluster was set up anew.
		j.useToken = true
		j.Log.Warn("the server does not accept the certificate of this node any more; trying the token")
		return errRetryNow
	case answer.code == 401 && !answer.withToken:
		return &problem.Input{Source: flagToken, Err: fmt.Errorf(
			"the server %s does not accept the certificate of this node and there is no token: %w", j.url, refused),
			Want: "the token in the file server/token of a server"}
	case answer.code == 401:
		return &problem.Input{Source: flagToken,
			Err:  fmt.Errorf("the server %s refused the token: %w", j.url, refused),
			Want: "the current token in the file server/token of a server, or a new one from `a4s token create`"}
	case answer.code == 403 && answer.reason == joinapi.ReasonNodeNameTaken:
		return &problem.Input{Source: flagNodeName, Value: j.NodeName, Err: refused}
	case answer.code == 422 && answer.field == joinapi.FieldNodeName:
		return &problem.Input{Source: flagNodeName, Value: j.NodeName, Err: refused}
	case answer.code == 422 && answer.field == joinapi.FieldNodeIPs:
		return &problem.Input{Source: flagNodeIP, Value: strings.Join(j.NodeIPs, ","), Err: refused}
	case answer.code == 400 || answer.code == 403 || answer.code == 422:
		return &problem.Input{Source: flagServer, Value: j.url.String(),
			Err: fmt.Errorf("the server refused the node: %w", refused)}
	}
	return err
}
