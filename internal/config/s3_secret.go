package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/a4s-io/a4s/internal/problem"
)

const (
	// S3SecretNamespace is where the Secret of EtcdS3.ConfigSecret and its ConfigMap are.
	S3SecretNamespace = "kube-system"
	// S3CAName is the key of that Secret that names the ConfigMap with further CAs.
	S3CAName = "etcd-s3-endpoint-ca-name"
	// NoProxy is EtcdS3.Proxy for none, whatever the environment says.
	NoProxy = "none"

	s3ConfigSecret = "etcd-s3-config-secret"
	s3EndpointCA   = "etcd-s3-endpoint-ca"
)

var secretName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// s3NotInSecret are the settings that only flags, variables and files have.
func s3NotInSecret() []string { return []string{"etcd-s3", s3ConfigSecret, "etcd-s3-retention"} }

// given are the settings beside s3NotInSecret that are not the defaults.
func (s *EtcdS3) given() (names []string) {
	normal := &EtcdS3{}
	defaults := s3Settings(normal)
	if err := applyDefaults(defaults); err != nil {
		return nil // a test applies them
	}
	for i, own := range s3Settings(s) {
		if !slices.Contains(s3NotInSecret(), own.Name) &&
			reflect.ValueOf(own.target).Elem().Interface() != reflect.ValueOf(defaults[i].target).Elem().Interface() {
			names = append(names, own.Name)
		}
	}
	return names
}

// InSecret reports whether the settings are in ConfigSecret. As in k3s that has all of them, or
// none when there is any other: the two are never merged.
func (s *EtcdS3) InSecret() bool { return s.ConfigSecret != "" && !s.ofSecret && len(s.given()) == 0 }

// whole says in an error why a Secret that is named does not help.
func (s *EtcdS3) whole() string {
	if s.ConfigSecret == "" || s.ofSecret {
		return ""
	}
	return fmt.Sprintf("; %s has all settings or none, and %s is given", Dashed(s3ConfigSecret),
		Dashed(s.given()[0]))
}

// ignoredSecret warns of a Secret that is not used.
func (s *EtcdS3) ignoredSecret(source func(name string) string) []string {
	if !s.Enabled || s.ConfigSecret == "" || s.InSecret() {
		return nil
	}
	return []string{fmt.Sprintf("%s: ignored, the Secret has all settings or none and %s is given",
		source(s3ConfigSecret), source(s.given()[0]))}
}

// Source says where the value of a setting is to be changed.
func (s *EtcdS3) Source(name string) string {
	if s.ofSecret {
		return fmt.Sprintf("Secret %s/%s: key %q", S3SecretNamespace, s.ConfigSecret, name)
	}
	return Dashed(name)
}

// OrVariable is the part of an error that names the variable of a setting. A variable does not
// help when settings are in a Secret.
func (s *EtcdS3) OrVariable(name string) string {
	if s.ofSecret {
		return ""
	}
	return ", or " + name + " in the environment"
}

// OfSecret returns the settings that a Secret has, under the names of the flags. The CA is in it and
// not in a file; cas are those of the ConfigMap that it names. Errors have no value that may be secret.
func (s *EtcdS3) OfSecret(data map[string][]byte, cas ...string) (*EtcdS3, error) {
	out := &EtcdS3{}
	table := s3Settings(out)
	if err := applyDefaults(table); err != nil {
		return nil, err
	}
	out.Enabled, out.ConfigSecret, out.Retention, out.ofSecret = true, s.ConfigSecret, s.Retention, true
	c := &checker{source: out.Source}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		value := strings.TrimSpace(string(data[key])) // files end with a new line
		set := find(table, key)
		switch {
		case key == S3CAName, !strings.HasPrefix(key, "etcd-s3"):
		case set == nil || slices.Contains(s3NotInSecret(), key):
			c.fail(key, "", ErrUnknownKey, "the name of a flag of S3 storage, without dashes")
		case value == "":
		case key == s3EndpointCA:
			cas = append(cas, value)
		default:
			if err := set.set([]string{value}); err != nil {
				c.fail(key, "", errors.New("invalid value"), set.Kind().Want())
			}
		}
	}
	out.EndpointCAs = strings.Join(cas, "\n")
	c.s3(out)
	out.normalize()
	return out, c.err()
}

// ErrNoSecret means that the Secret of EtcdS3.ConfigSecret, or the ConfigMap that it names, is not there.
var ErrNoSecret = errors.New("there is no such object in " + S3SecretNamespace)

// AbsentSecret is the error for a Secret or, if it is named, a ConfigMap that is not there.
func (s *EtcdS3) AbsentSecret(configMap string) error {
	in := &problem.Input{Source: Dashed(s3ConfigSecret), Value: cmp.Or(configMap, s.ConfigSecret), Err: ErrNoSecret,
		Want: "a Secret with the settings of S3 under the names of their flags, without dashes"}
	if configMap != "" {
		in.Source = fmt.Sprintf("Secret %s/%s: key %q", S3SecretNamespace, s.ConfigSecret, S3CAName)
		in.Want = "a ConfigMap with CAs in PEM form"
	}
	return in
}
