package registries

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/a4s-io/a4s/internal/problem"
)

// DefaultFile is where the registries file is looked for; it need not exist.
const DefaultFile = "/etc/a4s/registries.yaml"

// wildcard is the key that stands for every registry without its own.
const wildcard = "*"

// Config is a registries file.
type Config struct {
	// Mirrors lists the endpoints to try before a registry itself.
	Mirrors map[string]Mirror `yaml:"mirrors"`
	// Configs holds credentials and TLS settings per host, whether the host
	// is a registry or an endpoint of one.
	Configs map[string]Host `yaml:"configs"`

	file string // for messages
}

// Mirror is what stands in for a registry.
type Mirror struct {
	Endpoints []string          `yaml:"endpoint"`
	Rewrites  map[string]string `yaml:"rewrite"`
}

// Host is how to talk to one host.
type Host struct {
	Auth *Auth `yaml:"auth"`
	TLS  *TLS  `yaml:"tls"`
}

// Auth is the credential for a host.
type Auth struct {
	Username string `yaml:"username"`
	Password string `yaml:"password"`
	// Auth is base64 of "username:password".
	Auth          string `yaml:"auth"`
	IdentityToken string `yaml:"identity_token"`
}

// TLS are the TLS settings for a host.
type TLS struct {
	CAFile             string `yaml:"ca_file"`
	CertFile           string `yaml:"cert_file"`
	KeyFile            string `yaml:"key_file"`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify"`
}

// Load reads and checks a registries file. DefaultFile may be missing.
func Load(file string) (*Config, error) {
	c := &Config{file: file}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && file == DefaultFile {
		return c, nil
	}
	if err != nil {
		return nil, &problem.Input{Source: "--private-registry", Value: file, Err: err,
			Want: "a readable registries file"}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		return nil, &problem.Input{Source: file, Err: withoutValues(err),
			Want: `the keys "mirrors" and "configs" as documented`}
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	return c, nil
}

// quoted is what messages of yaml show of a value, which can be a secret.
var quoted = regexp.MustCompile("`[^`]*`")

// withoutValues is a mistake in the file without what stands there: it is shown where more than
// root can read.
func withoutValues(err error) error {
	var wrong *yaml.TypeError
	if !errors.As(err, &wrong) {
		return err
	}
	return errors.New(quoted.ReplaceAllString(strings.Join(wrong.Errors, "; "), "a value"))
}

// bad returns the mistake at a key of the file. Secrets are never its value.
func (c *Config) bad(value, want string, err error, path ...string) error {
	return &problem.Input{Source: fmt.Sprintf("%s: key %s", c.file, strings.Join(path, ".")), Value: value,
		Want: want, Err: err}
}

func (c *Config) validate() error {
	for _, name := range slices.Sorted(maps.Keys(c.Mirrors)) {
		if err := c.checkName(name, "mirrors"); err != nil {
			return err
		}
		for i, endpoint := range c.Mirrors[name].Endpoints {
			if _, err := parseEndpoint(endpoint); err != nil {
				return c.bad(endpoint, "a URL such as https://mirror.example:5000", err, "mirrors", name,
					fmt.Sprintf("endpoint[%d]", i))
			}
		}
		if _, err := c.rewritePrefix(name); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Configs)) {
		if err := c.checkName(name, "configs"); err != nil {
			return err
		}
		if err := c.checkAuth(name); err != nil {
			return err
		}
		if err := c.checkTLS(name); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) checkName(name, section string) error {
	if name == wildcard {
		return nil
	}
	u, err := url.Parse("//" + name)
	if err != nil || u.Host != name || u.Hostname() == "" || strings.HasSuffix(name, ":") {
		return c.bad(name, `a registry host, with its port if it has one, such as "registry.example:5000", or "*"`,
			nil, section)
	}
	return nil
}

func (c *Config) checkAuth(name string) error {
	auth := c.Configs[name].Auth
	if auth == nil {
		return nil
	}
	if name == wildcard {
		return c.bad("", "credentials for a named host: they must not be sent to every registry", nil,
			"configs", name, "auth")
	}
	if auth.Username == "" && auth.Auth == "" && auth.IdentityToken == "" {
		return c.bad("", `"username" and "password", "auth" or "identity_token"`, nil, "configs", name, "auth")
	}
	if auth.Auth != "" {
		if err := checkBasic(auth.Auth); err != nil {
			return c.bad("", `base64 of "username:password"`, err, "configs", name, "auth", "auth")
		}
	}
	return nil
}

// parseEndpoint completes an endpoint the way k3s does: no scheme means
// https, except for a non-standard port of this machine; no path means the
// API root /v2, and any other path is the API root itself.
func parseEndpoint(endpoint string) (*url.URL, error) {
	full := endpoint
	if !strings.Contains(full, "://") {
		full = "//" + full
	}
	u, err := url.Parse(full)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "" {
		u.Scheme = "https"
		if port := u.Port(); isLocal(u.Hostname()) && port != "" && port != "443" {
			u.Scheme = "http"
		}
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("scheme %q is not http or https", u.Scheme)
	}
	if u.Hostname() == "" {
		return nil, errors.New("no host")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("only scheme, host, port and path are possible")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	if u.Path == "" {
		u.Path = "/v2"
	}
	return u, nil
}

func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
