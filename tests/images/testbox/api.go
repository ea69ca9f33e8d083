package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// accountDir is where the kubelet mounts the pod's service account.
const accountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// api talks to the API server with the pod's own service account, by the name
// that every pod knows it under. It prints the user that the API server takes
// it for, then the pods of its namespace or why it may not see them.
func api(ctx context.Context, out io.Writer, _ []string) error {
	caller, err := newAPICaller()
	if err != nil {
		return err
	}
	var review struct {
		Status struct {
			UserInfo struct {
				Username string `json:"username"`
			} `json:"userInfo"`
		} `json:"status"`
	}
	body := `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`
	if err := caller.call(ctx, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", body,
		&review); err != nil {
		return fmt.Errorf("asking who I am: %w", err)
	}
	fmt.Fprintln(out, "user", review.Status.UserInfo.Username)

	var pods struct {
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		} `json:"items"`
	}
	if err := caller.call(ctx, http.MethodGet, "/api/v1/namespaces/"+caller.namespace+"/pods", "", &pods); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	for _, p := range pods.Items {
		fmt.Fprintln(out, "pod", p.Metadata.Name)
	}
	return nil
}

// apiCaller is the pod's way to the API server.
type apiCaller struct {
	client    *http.Client
	token     string
	namespace string
}

func newAPICaller() (*apiCaller, error) {
	read := func(name string) (string, error) {
		b, err := os.ReadFile(filepath.Join(accountDir, name))
		return strings.TrimSpace(string(b)), err
	}
	token, err := read("token")
	if err != nil {
		return nil, err
	}
	namespace, err := read("namespace")
	if err != nil {
		return nil, err
	}
	ca, err := read("ca.crt")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(ca)) {
		return nil, errors.New("ca.crt holds no certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	return &apiCaller{
		client:    &http.Client{Transport: transport, Timeout: lookupTimeout},
		token:     token,
		namespace: namespace,
	}, nil
}

func (c *apiCaller) call(ctx context.Context, method, path, body string, result any) error {
	req, err := http.NewRequestWithContext(ctx, method, "https://kubernetes.default.svc"+path,
		bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s: %s", resp.Status, answer)
	}
	return json.Unmarshal(answer, result)
}
