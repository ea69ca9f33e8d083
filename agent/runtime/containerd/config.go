package containerd

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/pelletier/go-toml/v2"

	"github.com/a4s-io/a4s/agent/runtime/registries"
	"github.com/a4s-io/a4s/internal/problem"
)

//go:embed config.toml.tmpl
var baseTemplate string

// maxShimSocketDir is containerd's own limit, so that the path of a shim's
// socket fits into a socket address.
const maxShimSocketDir = 42

// templateData is what a user's template may refer to.
type templateData struct {
	Root, State, Socket, ShimSocketDir string
	LogLevel                           string
	OOMScore                           int
	Snapshotter, PauseImage, CertsDir  string
	Auths                              map[string]registries.Auth
	RestrictOOMScoreAdj                bool
	CNIBinDir, CNIConfDir              string
	ShimPath, RuncPath, RuncRoot       string
	SystemdCgroup                      bool
	DefaultRuntime                     string
	Runtimes                           []Runtime
}

func (o Options) templateData(auths map[string]registries.Auth) templateData {
	d := templateData{
		Root:                o.rootDir(),
		State:               o.StateDir,
		Socket:              Socket(o.StateDir),
		ShimSocketDir:       filepath.Join(o.StateDir, "s"),
		LogLevel:            o.logLevel(),
		Snapshotter:         o.Snapshotter,
		PauseImage:          o.PauseImage,
		CertsDir:            o.certsDir(),
		Auths:               auths,
		RestrictOOMScoreAdj: !o.Host.CanLowerOOMScore,
		CNIBinDir:           o.CNIBinDir,
		CNIConfDir:          o.CNIConfDir,
		ShimPath:            o.ShimPath,
		RuncPath:            o.RuncPath,
		RuncRoot:            filepath.Join(o.StateDir, "runc"),
		SystemdCgroup:       o.Host.SystemdCgroups(),
		DefaultRuntime:      o.DefaultRuntime,
		Runtimes:            o.Runtimes,
	}
	if o.Host.CanLowerOOMScore {
		d.OOMScore = -999 // as the kubelet
	}
	return d
}

func (o Options) validate() error {
	if dir := filepath.Join(o.StateDir, "s"); len(dir) > maxShimSocketDir {
		return fmt.Errorf("state directory %s of containerd is too long for the sockets below it", o.StateDir)
	}
	// containerd resolves a relative path against its own directories.
	for _, path := range []string{o.DataDir, o.StateDir, o.ShimPath, o.RuncPath, o.CNIBinDir, o.CNIConfDir} {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("containerd needs absolute paths, not %q", path)
		}
	}
	return nil
}

// config renders the configuration. user is the content of the user's
// template, nil when there is none.
func (o Options) config(user []byte, auths map[string]registries.Auth) ([]byte, error) {
	t, err := template.New("base").Funcs(template.FuncMap{"toml": tomlString}).
		Option("missingkey=error").Parse(baseTemplate)
	if err != nil {
		return nil, fmt.Errorf("containerd configuration: %w", err)
	}
	mistake := func(err error) error {
		if user == nil {
			return fmt.Errorf("containerd configuration: %w", err)
		}
		return &problem.Input{Source: o.templateFile(), Err: err,
			Want: `a Go template that renders a containerd configuration, such as {{ template "base" . }}`}
	}
	if user != nil {
		if t, err = t.New("user").Parse(string(user)); err != nil {
			return nil, mistake(err)
		}
	}
	var b bytes.Buffer
	if err := t.Execute(&b, o.templateData(auths)); err != nil {
		return nil, mistake(err)
	}
	var check map[string]any
	if err := toml.Unmarshal(b.Bytes(), &check); err != nil {
		return nil, mistake(err)
	}
	return b.Bytes(), nil
}

// Validate finds mistakes in the operator's template. It is meant to be called
// before anything starts.
func (o Options) Validate() error {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return err
	}
	if err := o.checkDefaultRuntime(); err != nil {
		return err
	}
	user, err := o.userTemplate()
	if err != nil {
		return err
	}
	_, err = o.config(user, o.Registries.Config().Auths())
	return err
}

// userTemplate reads the operator's template, nil when there is none.
func (o Options) userTemplate() ([]byte, error) {
	user, err := os.ReadFile(o.templateFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &problem.Input{Source: o.templateFile(), Err: err, Want: "a readable file"}
	}
	return user, nil
}

// writeConfig writes everything that containerd reads when it starts.
func (o Options) writeConfig() error {
	for _, dir := range []string{o.rootDir(), o.etcDir(), o.StateDir, o.CNIConfDir} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return fmt.Errorf("making a directory for containerd: %w", err)
		}
	}
	user, err := o.userTemplate()
	if err != nil {
		return err
	}
	known, err := o.Registries.Begin(o.certsDir())
	if err != nil {
		return err
	}
	content, err := o.config(user, known.Auths())
	if err != nil {
		return err
	}
	// It may hold the credentials of registries.
	if err := os.WriteFile(o.configFile(), content, 0o600); err != nil {
		return fmt.Errorf("writing containerd's configuration: %w", err)
	}
	return nil
}

// tomlString returns s as a TOML string; every JSON string is one.
func tomlString(s string) (string, error) {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(s)
	return strings.TrimSuffix(b.String(), "\n"), err
}
