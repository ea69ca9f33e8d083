package encryption

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/problem"
)

// keySize is that of an AES-256 key; secretbox takes 32 bytes too.
const keySize = 32

// The part of apiserver.config.k8s.io/v1 EncryptionConfiguration used here.
type configuration struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Resources  []resource `json:"resources"`
}

type resource struct {
	Resources []string   `json:"resources"`
	Providers []provider `json:"providers"`
}

type provider struct {
	Secretbox *keys     `json:"secretbox,omitempty"`
	Identity  *struct{} `json:"identity,omitempty"`
}

type keys struct {
	Keys []key `json:"keys"`
}

type key struct {
	Name   string `json:"name"`
	Secret string `json:"secret"`
}

// Ensure writes or updates the configuration file at path and returns path,
// or "" when Secrets were never encrypted and are not to be. With on, new
// Secrets are encrypted; without, they are written in clear and those
// encrypted before stay readable.
func Ensure(path string, on bool) (string, error) {
	c, err := read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !on:
		return "", nil
	case errors.Is(err, fs.ErrNotExist):
		if c, err = generate(); err != nil {
			return "", err
		}
	case err != nil:
		return "", &problem.Precondition{What: path, Err: err, Fix: "restore it from a backup; without it the encrypted Secrets cannot be read"}
	}
	for i := range c.Resources {
		order(c.Resources[i].Providers, on)
	}
	data, err := yaml.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("rendering %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("making the directory of the encryption configuration: %w", err)
	}
	if err := atomicfile.Write(path, data, 0o600); err != nil {
		return "", fmt.Errorf("writing the encryption configuration: %w", err)
	}
	return path, nil
}

// order puts the provider that writes first: the key, or plain text.
func order(p []provider, on bool) {
	slices.SortStableFunc(p, func(a, b provider) int {
		switch {
		case (a.Identity == nil) == (b.Identity == nil):
			return 0
		case (a.Identity == nil) == on:
			return -1
		default:
			return 1
		}
	})
}

func read(path string) (*configuration, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := &configuration{}
	if err := yaml.UnmarshalStrict(data, c); err != nil {
		return nil, err
	}
	if len(c.Resources) == 0 || len(c.Resources[0].Providers) == 0 {
		return nil, errors.New("it names no providers")
	}
	return c, nil
}

func generate() (*configuration, error) {
	secret := make([]byte, keySize)
	if _, err := rand.Read(secret); err != nil {
		return nil, fmt.Errorf("making an encryption key: %w", err)
	}
	return &configuration{
		APIVersion: "apiserver.config.k8s.io/v1",
		Kind:       "EncryptionConfiguration",
		Resources: []resource{{
			Resources: []string{"secrets"},
			Providers: []provider{
				{Secretbox: &keys{Keys: []key{{Name: "key1", Secret: base64.StdEncoding.EncodeToString(secret)}}}},
				{Identity: &struct{}{}},
			},
		}},
	}, nil
}
