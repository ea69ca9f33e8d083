package join

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/jointoken"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
)

const (
	requestTimeout = 15 * time.Second
	// pause is between two rounds over all servers.
	pause = 2 * time.Second
)

const (
	flagServer    = "--server"
	flagToken     = "--token"
	flagDatastore = "--datastore-endpoint"
)

// Options says where to ask and as whom.
type Options struct {
	// URLs are the servers, "https://host:port", of which the first that
	// answers is taken.
	URLs []string
	// Token is the server token, with its CA hash.
	Token jointoken.Token
	// Settings are those of this server.
	Settings []joinapi.ServerSetting
	// Shared says that this server has an etcd that all servers are to share.
	Shared bool
	Log    *logrus.Entry
}

// ParseToken reads the token with which a server joins. Only the complete
// server token is good for that: with it comes the power over the cluster.
func ParseToken(text string) (jointoken.Token, error) {
	const want = "the complete token in the file server/token of a running server, K10<hash>::server:<password>"
	bad := func(text string) (jointoken.Token, error) {
		return jointoken.Token{}, &problem.Input{Source: flagToken, Err: errors.New(text), Want: want}
	}
	if text == "" {
		return bad("a server that joins others needs their token")
	}
	t, err := jointoken.Parse(flagToken, text)
	switch {
	case err != nil:
		return t, err
	case t.Bootstrap():
		return bad("with a bootstrap token agents join, but no servers")
	case t.CAHash == "":
		return bad("the token does not say which CA to trust")
	case t.User != joinapi.UserServer:
		return bad(fmt.Sprintf("with the token of user %q agents join, but no servers", t.User))
	}
	return t, nil
}

// Fetch asks the servers in turn until one answers or ctx ends. What cannot
// get better by waiting is a *problem.Input.
func Fetch(ctx context.Context, o Options) (*joinapi.ServerBundle, error) {
	last := ""
	for {
		var errs []error
		for _, url := range o.URLs {
			bundle, err := fetchFrom(ctx, url, o)
			var in *problem.Input
			if err == nil || errors.As(err, &in) {
				return bundle, err
			}
			errs = append(errs, fmt.Errorf("%s: %w", url, err))
		}
		err := errors.Join(errs...)
		if ctx.Err() != nil {
			return nil, err
		}
		if text := err.Error(); text != last {
			o.Log.Warnf("Waiting for a server to join: %s", strings.ReplaceAll(text, "\n", "; "))
			last = text
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("joining: %w; last: %w", context.Cause(ctx), err)
		}
	}
}

func fetchFrom(ctx context.Context, url string, o Options) (*joinapi.ServerBundle, error) {
	roots, err := trust(ctx, url, o.Token.CAHash)
	if err != nil {
		return nil, err
	}
	data, err := get(ctx, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, url+joinapi.PathServer,
		o.Token.Authorization())
	if err != nil {
		return nil, explain(url, err)
	}
	bundle := &joinapi.ServerBundle{}
	if err := json.Unmarshal(data, bundle); err != nil {
		return nil, fmt.Errorf("its answer at %s: %w", joinapi.PathServer, err)
	}
	if err := Agree(o.Settings, bundle.Settings, url); err != nil {
		return nil, err
	}
	return bundle, sameDatastore(url, o.Shared, bundle)
}

// sameDatastore refuses to join servers that have another datastore than this one would.
func sameDatastore(url string, shared bool, b *joinapi.ServerBundle) error {
	switch {
	case shared && b.Cluster != "", !shared && len(b.Datastore) > 0:
		return nil
	case b.Cluster != "":
		return &problem.Input{Source: flagDatastore, Err: fmt.Errorf("%s shares an etcd with its servers", url),
			Want: "the --datastore-endpoint of that server, and the files for it"}
	case len(b.Datastore) > 0:
		return &problem.Input{Source: flagDatastore,
			Err:  fmt.Errorf("the servers of %s have their own datastore", url),
			Want: "none: this server gets a part of it"}
	case shared:
		return &problem.Input{Source: flagServer, Value: url,
			Err:  errors.New("that server has a datastore that servers cannot share"),
			Want: "a server with the same --datastore-endpoint, that of an etcd"}
	}
	return &problem.Input{Source: flagServer, Value: url,
		Err:  errors.New("that server keeps its datastore to itself"),
		Want: "a server that was started with --cluster-init; start that one again with it, and its data is kept"}
}

// trust returns the CA that the server shows, if the token pins it. The
// connection carries no credential.
func trust(ctx context.Context, url, hash string) (*x509.CertPool, error) {
	bundle, err := get(ctx, &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // what comes is compared with the hash
	}, url+joinapi.PathCACerts, "")
	if err != nil {
		return nil, err
	}
	pinned, err := pki.Pinned(bundle, hash)
	if err != nil {
		return nil, &problem.Input{
			Source: flagToken,
			Err:    fmt.Errorf("%s is not a server of the cluster of this token: %w", url, err),
			Want:   "the token and the address of the same cluster",
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pinned) // it was parsed before
	return pool, nil
}

// answerError is an answer other than 200.
type answerError struct {
	code    int
	message string
}

func (e *answerError) Error() string {
	return fmt.Sprintf("the server answered %d: %s", e.code, e.message)
}

func get(ctx context.Context, config *tls.Config, url, authorization string) ([]byte, error) {
	return do(ctx, config, http.MethodGet, url, authorization, nil)
}

// do sends a request, with a body of JSON unless it is nil.
func do(
	ctx context.Context, config *tls.Config, method, url, authorization string, body []byte,
) ([]byte, error) {
	client := &http.Client{
		Timeout: requestTimeout,
		Transport: &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment,
			DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, joinapi.MaxBody))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return data, nil
	}
	answer := &answerError{code: resp.StatusCode, message: resp.Status}
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(data, &status) == nil && status.Message != "" {
		answer.message = status.Message
	}
	return nil, answer
}

// explain turns final answers into problems of the user.
func explain(url string, err error) error {
	var answer *answerError
	if errors.As(err, &answer) {
		switch answer.code {
		case http.StatusUnauthorized, http.StatusForbidden:
			return &problem.Input{Source: flagToken, Err: fmt.Errorf("%s refuses it: %s", url, answer.message),
				Want: "the token in the file server/token of a running server"}
		case http.StatusNotFound:
			return &problem.Input{Source: flagServer, Value: url, Err: errors.New(answer.message),
				Want: "a server that others can join"}
		}
		return err
	}
	var host x509.HostnameError
	if errors.As(err, &host) {
		return &problem.Input{Source: flagServer, Value: url, Err: err,
			Want: "a name or address in the server's certificate; that server adds one with --tls-san"}
	}
	return err
}

// ErrDiffers is a setting on which servers must agree, and do not.
var ErrDiffers = errors.New("servers have to agree on it")

// differsError is ErrDiffers with what another server has.
type differsError struct{ url, value string }

func (e *differsError) Error() string { return fmt.Sprintf("the server %s has %q", e.url, e.value) }

func (e *differsError) Is(target error) bool { return target == ErrDiffers }

// Agree compares the settings of this server with those of a running one. What
// only one of them knows was added by another version, and is left out.
func Agree(own, theirs []joinapi.ServerSetting, url string) error {
	values := map[string]string{}
	for _, s := range theirs {
		values[s.Flag] = s.Value
	}
	var errs []error
	for _, s := range own {
		if value, known := values[s.Flag]; known && value != s.Value {
			errs = append(errs, &problem.Input{Source: s.Flag, Value: s.Value,
				Err: &differsError{url: url, value: value}, Want: "the same on all servers"})
		}
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}
