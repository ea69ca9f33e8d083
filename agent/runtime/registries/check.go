package registries

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"os"
	"regexp"
	"strings"
)

// A rewrite that only adds a prefix: a pattern that captures the whole name,
// and a replacement that ends in what was captured.
var (
	wholeName  = regexp.MustCompile(`^\^?\(\.[*+]\)\$?$`)
	prefixOnly = regexp.MustCompile(`^((?:[a-z0-9]+(?:[._-]+[a-z0-9]+)*/)+)\$(?:1|\{1\})$`)
)

// rewritePrefix returns the path prefix that the rewrites of a mirror amount
// to, without slashes at its ends.
func (c *Config) rewritePrefix(name string) (string, error) {
	rewrites := c.Mirrors[name].Rewrites
	for pattern, replacement := range rewrites {
		match := prefixOnly.FindStringSubmatch(replacement)
		if len(rewrites) > 1 || !wholeName.MatchString(pattern) || match == nil {
			return "", c.bad(pattern+": "+replacement,
				`no rewrite, or a single one that adds a prefix, such as "^(.*)$": "prefix/$1"; `+
					`containerd can rewrite nothing else`,
				nil, "mirrors", name, "rewrite")
		}
		return strings.TrimSuffix(match[1], "/"), nil
	}
	return "", nil
}

func checkBasic(auth string) error {
	decoded, err := base64.StdEncoding.DecodeString(auth)
	if err != nil {
		return errors.New("not valid base64") // the cause would quote the secret
	}
	if user, _, ok := strings.Cut(string(decoded), ":"); !ok || user == "" {
		return errors.New("no user name and colon in it")
	}
	return nil
}

// checkTLS reads every file once, because containerd reports a bad one only
// when a pull fails.
func (c *Config) checkTLS(name string) error {
	t := c.Configs[name].TLS
	if t == nil {
		return nil
	}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
			err = errors.New("no certificate in it")
		}
		if err != nil {
			return c.bad(t.CAFile, "a file of PEM certificates", err, "configs", name, "tls", "ca_file")
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return c.bad("", "both cert_file and key_file, or neither", nil, "configs", name, "tls")
	}
	if t.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile); err != nil {
			return c.bad(t.CertFile, "a PEM certificate that belongs to key_file", err, "configs",
				name, "tls", "cert_file")
		}
	}
	return nil
}
