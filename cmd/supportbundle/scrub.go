package supportbundle

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/a4s-io/a4s/internal/config"
)

const (
	// scrubbed stands for what is secret.
	scrubbed = "<secret>"
	// leastSecret is how long a text is that is looked for wherever it stands: shorter ones
	// stand in many places.
	leastSecret = 8
	// nodePassword is where a node keeps its password.
	nodePassword = "/etc/a4s/node/password"
)

// form is how secrets look.
type form struct {
	is   *regexp.Regexp
	with string
}

// scrubber takes secrets out of text: those that it knows, and what looks like one.
type scrubber struct {
	known *strings.Replacer
	// forms are for all text, and lines for logs, where a name stands before the value.
	forms, lines []form
}

// newScrubber knows these secrets.
func newScrubber(known []string) *scrubber {
	// The longest first: one can be a part of another.
	slices.SortFunc(known, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, secret := range slices.Compact(known) {
		if len(secret) >= leastSecret {
			pairs = append(pairs, secret, scrubbed)
		}
	}
	return &scrubber{
		known: strings.NewReplacer(pairs...),
		forms: []form{
			{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`),
				scrubbed},
			{regexp.MustCompile(`(?s)\A[A-Za-z0-9+/=\s]+-----END [A-Z ]*PRIVATE KEY-----`), scrubbed}, // cut
			{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`), scrubbed},
			{regexp.MustCompile(`\bK10[0-9a-fA-F]{16,}::[^\s"'<>\\]+`), scrubbed},
			{regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`), scrubbed}, // a bootstrap token
			{regexp.MustCompile(`\b(AKIA|ASIA)[A-Z0-9]{16}\b`), scrubbed},
			{regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s"'@]+@`), "${1}" + scrubbed + "@"},
			{regexp.MustCompile(`\b[\w.-]+:[^\s"'@]+@(tcp|unix)\(`), scrubbed + "@${1}("}, // a database
			{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}`), "${1} " + scrubbed},
		},
		lines: []form{
			{regexp.MustCompile(`(?i)([\w.-]*(?:password|passwd|passphrase|secret|token|credential|authorization|` +
				`api[-_]?key|access[-_]?key|private[-_]?key)[\w-]*["'\\]*\s*[:=]\s*)` +
				`("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;}\])]+)`), "${1}" + scrubbed},
			// Commands of containers: what the kubelet says of probes, and runtimes of what they cannot start.
			{regexp.MustCompile(`\bcmd=("(?:[^"\\]|\\.)*"|\[[^\]]*\]|\S+)`), "cmd=" + scrubbed},
			{regexp.MustCompile(`\bexec: (\\*").*?(\\*": )`), "exec: ${1}" + scrubbed + "${2}"},
		},
	}
}

// text is a text without secrets.
func (s *scrubber) text(text string) string {
	text = s.known.Replace(text)
	for _, f := range s.forms {
		text = f.is.ReplaceAllString(text, f.with)
	}
	return text
}

// log is the text of a log without secrets.
func (s *scrubber) log(text string) string {
	text = s.text(text)
	for _, f := range s.lines {
		text = f.is.ReplaceAllString(text, f.with)
	}
	return text
}

// secretsOf are the secrets in the files of this machine, as far as they can be read.
func secretsOf(l *config.Local) []string {
	server := filepath.Join(l.DataDir, "server")
	var out []string
	for _, file := range []string{filepath.Join(server, "token"), filepath.Join(server, "agent-token"),
		filepath.Join(server, "node-token"), nodePassword} {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // there is none, or it is not readable: then it is no part of what this user sees
		}
		token := strings.TrimSpace(string(data))
		out = append(out, token, token[strings.LastIndexByte(token, ':')+1:])
	}
	for _, file := range append(settingsFiles(l), l.PrivateRegistry, filepath.Join(server, "cred", "encryption.yaml"),
		l.Kubeconfig) {
		data, err := os.ReadFile(file)
		var tree any
		if err != nil || yaml.Unmarshal(data, &tree) != nil {
			continue
		}
		out = append(out, secretsIn(tree, "")...)
	}
	return out
}

// secretsOfConfig are those by which the API knows who asks.
func secretsOfConfig(cfg *rest.Config) []string {
	if cfg == nil {
		return nil
	}
	return []string{cfg.BearerToken, cfg.Password, string(cfg.KeyData)}
}

// secretNames are what the keys of settings are called that hold secrets, or may.
var secretNames = regexp.MustCompile(`(?i)(secret|token|password|passwd|^auth$|key-data|access-key|endpoint|-arg$)`)

// secretsIn are the texts below keys that are called so.
func secretsIn(tree any, key string) (out []string) {
	switch v := tree.(type) {
	case map[string]any:
		for name, below := range v {
			out = append(out, secretsIn(below, name)...)
		}
	case []any:
		for _, below := range v {
			out = append(out, secretsIn(below, key)...)
		}
	case string:
		value := strings.TrimSpace(v)
		switch {
		case !secretNames.MatchString(key), strings.HasPrefix(value, "/"), strings.HasSuffix(key, "-arg"):
		case strings.HasSuffix(key, "endpoint"): // of a database: scheme://user:password@host, or without the scheme
			_, rest, _ := strings.Cut(strings.TrimPrefix(value[strings.Index(value, "://")+1:], "//"), ":")
			if at := strings.LastIndexByte(rest, '@'); at > 0 {
				out = append(out, value, rest[:at])
			}
		default:
			out = append(out, value)
		}
	}
	return out
}
