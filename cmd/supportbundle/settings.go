package supportbundle

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/internal/config"
)

// settingsFiles are the files that the settings of this machine come from.
func settingsFiles(l *config.Local) []string {
	more, err := filepath.Glob(filepath.Join(l.ConfigFile+".d", "*.yaml"))
	if err != nil {
		more = nil // the name has a bracket in it
	}
	return append([]string{l.ConfigFile}, more...)
}

// settings are what a file sets, without what is secret: of a setting that a4s does not know, or
// that may hold a secret, the length alone.
func settings(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var set map[string]any
	if err := yaml.Unmarshal(data, &set); err != nil {
		return "", fmt.Errorf("it is not YAML: %s", lengthOf(string(data))) // the error can show a part of it
	}
	known := map[string]bool{}
	for _, s := range append(config.ServerSettings(&config.Server{}), config.AgentSettings(&config.Agent{})...) {
		known[s.Name] = true
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", file)
	for _, key := range slices.Sorted(maps.Keys(set)) {
		name := strings.ReplaceAll(strings.TrimSuffix(key, "+"), "_", "-")
		show := known[name] && !secretNames.MatchString(name)
		values, list := set[key].([]any)
		if !list {
			values = []any{set[key]}
		}
		if !known[name] {
			key, name = lengthOf(key), ""
		}
		for _, value := range values {
			fmt.Fprintf(&b, "%s: %s\n", key, shownSetting(name, value, show))
		}
	}
	return b.String(), nil
}

// shownSetting is a value, or how long it is. Of an argument for another program the name is shown.
func shownSetting(name string, value any, show bool) string {
	switch v := value.(type) {
	case bool:
		return fmt.Sprint(v)
	case float64, int64:
		if show {
			return fmt.Sprint(v)
		}
	case string:
		if show {
			return v
		}
		if flag, of, ok := strings.Cut(v, "="); ok && strings.HasSuffix(name, "-arg") && isFlag(flag) {
			return flag + "=" + lengthOf(of)
		}
		return lengthOf(v)
	}
	return "<left out>"
}

// isFlag tells the name of a flag from what a secret with an equals sign may begin with.
func isFlag(name string) bool {
	return len(name) <= 64 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz-_") == ""
}

// lengthOf is what is shown of a text that may be secret.
func lengthOf(text string) string {
	return fmt.Sprintf("<%d characters>", utf8.RuneCountInString(text))
}
