package encryption

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/problem"
)

// keySize is that of a key of secretbox.
const keySize = 32

// keyPrefix begins the names of keys; a number follows that only grows.
const keyPrefix = "key"

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

// Ensure makes the configuration file at path if there is none. With on,
// Secrets are encrypted from now on; without, the file stays as it is: what
// was turned on stays on.
func Ensure(path string, on bool) error {
	c, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		c = empty()
	} else if err != nil {
		return err
	} else if !on || c.stage() != joinapi.EncryptionDisabled {
		return nil
	}
	if on {
		if err := c.turnOn(); err != nil {
			return err
		}
	}
	data, err := c.render()
	if err != nil {
		return err
	}
	return writeFile(path, data)
}

func empty() *configuration {
	return &configuration{
		APIVersion: "apiserver.config.k8s.io/v1",
		Kind:       "EncryptionConfiguration",
		Resources:  []resource{{Resources: []string{"secrets"}, Providers: []provider{{Identity: &struct{}{}}}}},
	}
}

func (c *configuration) render() ([]byte, error) {
	data, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("rendering the encryption configuration: %w", err)
	}
	return data, nil
}

// writeFile puts data at path, unless it is there.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making the directory of the encryption configuration: %w", err)
	}
	if err := atomicfile.Update(path, data, 0o600); err != nil {
		return fmt.Errorf("writing the encryption configuration: %w", err)
	}
	return nil
}

// read reads the file. What is wrong with it, but that it is missing, is a
// *problem.Precondition.
func read(path string) (*configuration, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parse(path, data)
}

// parse reads data, which is from the file or is to be its content.
func parse(path string, data []byte) (*configuration, error) {
	c := &configuration{}
	if err := yaml.UnmarshalStrict(data, c); err != nil {
		return nil, damaged(path, err)
	}
	if len(c.Resources) != 1 || len(c.Resources[0].Providers) == 0 {
		return nil, damaged(path, errors.New("it does not name the providers of one group of resources"))
	}
	for _, k := range c.keys() {
		if _, err := k.bytes(); err != nil {
			return nil, damaged(path, err)
		}
	}
	return c, nil
}

func damaged(path string, err error) error {
	return &problem.Precondition{What: path, Err: err,
		Fix: "restore it from a backup; without it the encrypted Secrets cannot be read"}
}

// hashOf identifies the content of the file as the API server does.
func hashOf(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return hash(data), nil
}

func hash(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

func (k key) bytes() (out [keySize]byte, err error) {
	secret, err := base64.StdEncoding.DecodeString(k.Secret)
	if err == nil && len(secret) != keySize {
		err = fmt.Errorf("%d bytes instead of %d", len(secret), keySize)
	}
	if err != nil {
		return out, fmt.Errorf("key %q: %w", k.Name, err)
	}
	return [keySize]byte(secret), nil
}

// number is that in the name of a key, 0 if there is none.
func (k key) number() int {
	n, err := strconv.Atoi(strings.TrimPrefix(k.Name, keyPrefix))
	if err != nil {
		return 0
	}
	return n
}

// secretbox is the provider that encrypts, nil if there never was a key.
func (c *configuration) secretbox() *keys {
	for _, p := range c.Resources[0].Providers {
		if p.Secretbox != nil {
			return p.Secretbox
		}
	}
	return nil
}

// keys are those of the file; the API server writes with the first.
func (c *configuration) keys() []key {
	if box := c.secretbox(); box != nil {
		return box.Keys
	}
	return nil
}

// active names the key that Secrets are written with, "" for plain text.
func (c *configuration) active() string {
	if c.stage() == joinapi.EncryptionDisabled {
		return ""
	}
	return c.keys()[0].Name
}

// stage tells by the order of providers and keys how far a change has come.
func (c *configuration) stage() joinapi.EncryptionStage {
	k := c.keys()
	switch {
	case c.Resources[0].Providers[0].Secretbox == nil || len(k) == 0:
		return joinapi.EncryptionDisabled
	case len(k) == 1:
		return joinapi.EncryptionEnabled
	case k[0].number() < k[1].number():
		return joinapi.EncryptionKeyAdded
	default:
		return joinapi.EncryptionKeyPromoted
	}
}

// enable takes a step on the way from plain text. The first key is only read
// with at first, so that no server writes what another one cannot read.
func (c *configuration) enable() error {
	if c.secretbox() != nil {
		c.order(true)
		return nil
	}
	k, err := newKey(1)
	if err != nil {
		return err
	}
	c.Resources[0].Providers = append(c.Resources[0].Providers, provider{Secretbox: &keys{Keys: []key{k}}})
	return nil
}

// turnOn takes all steps at once, while no API server works with c.
func (c *configuration) turnOn() error {
	for c.stage() == joinapi.EncryptionDisabled {
		if err := c.enable(); err != nil {
			return err
		}
	}
	return nil
}

// disable makes it write plain text. Keys stay: what has been written with
// them remains readable.
func (c *configuration) disable() { c.order(false) }

// order puts the provider that writes first: the keys, or plain text.
func (c *configuration) order(encrypt bool) {
	slices.SortStableFunc(c.Resources[0].Providers, func(a, b provider) int {
		switch {
		case (a.Identity == nil) == (b.Identity == nil):
			return 0
		case (a.Identity == nil) == encrypt:
			return -1
		default:
			return 1
		}
	})
}

// addKey adds a key that is read with and not yet written with.
func (c *configuration) addKey() error {
	box := c.secretbox()
	highest := 0
	for _, k := range box.Keys {
		highest = max(highest, k.number())
	}
	k, err := newKey(highest + 1)
	if err != nil {
		return err
	}
	box.Keys = append(box.Keys, k)
	return nil
}

// promote makes the second key the first.
func (c *configuration) promote() {
	k := c.secretbox().Keys
	k[0], k[1] = k[1], k[0]
}

// dropOld forgets all keys but the first.
func (c *configuration) dropOld() {
	box := c.secretbox()
	box.Keys = box.Keys[:1]
}

func newKey(number int) (key, error) {
	secret := make([]byte, keySize)
	if _, err := rand.Read(secret); err != nil {
		return key{}, fmt.Errorf("making an encryption key: %w", err)
	}
	return key{Name: keyPrefix + strconv.Itoa(number), Secret: base64.StdEncoding.EncodeToString(secret)}, nil
}
