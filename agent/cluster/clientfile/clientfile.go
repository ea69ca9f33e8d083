package clientfile

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"
)

// prefix begins the name of each plugin. A client elsewhere shows it when it refuses the file.
const prefix = "inside-a4s-only-"

// Register returns what the user of a kubeconfig has to have so that the clients which this
// process makes of it have a transport made by wrap. It is called for each client, with the
// transport that has the file's credentials.
func Register(wrap transport.WrapperFunc) (*api.AuthProviderConfig, error) {
	name := prefix + strings.ToLower(rand.Text())
	err := rest.RegisterAuthProviderPlugin(name,
		func(string, map[string]string, rest.AuthProviderConfigPersister) (rest.AuthProvider, error) {
			return provider(wrap), nil
		})
	if err != nil {
		return nil, fmt.Errorf("giving a transport to the clients of a file: %w", err)
	}
	return &api.AuthProviderConfig{Name: name}, nil
}

// provider is the plugin.
type provider transport.WrapperFunc

// WrapTransport implements rest.AuthProvider.
func (p provider) WrapTransport(inner http.RoundTripper) http.RoundTripper { return p(inner) }

// Login implements rest.AuthProvider: the credentials are those of the file.
func (provider) Login() error { return nil }
