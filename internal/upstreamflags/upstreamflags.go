package upstreamflags

import (
	"errors"
	"io"
	"sort"
	"strings"

	"github.com/spf13/pflag"

	"github.com/a4s-io/a4s/internal/problem"
)

// Merge returns the arguments for one component, "--name=value" each: the
// defaults in name order without those that the user overrides, then the
// user's in their order. A user argument is "name=value"; leading dashes are
// accepted because people paste them. source is the a4s flag that carries
// them, such as "--kube-apiserver-arg".
func Merge(source string, defaults map[string]string, user []string) ([]string, error) {
	overridden := map[string]bool{}
	given := make([]string, 0, len(user))
	for _, arg := range user {
		name, value, ok := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !ok || name == "" {
			return nil, &problem.Input{Source: source, Value: arg, Want: "name=value"}
		}
		overridden[dashed(name)] = true
		given = append(given, "--"+name+"="+value)
	}
	names := make([]string, 0, len(defaults))
	for name := range defaults {
		if !overridden[dashed(name)] {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	out := make([]string, 0, len(names)+len(given))
	for _, name := range names {
		out = append(out, "--"+name+"="+defaults[name])
	}
	return append(out, given...), nil
}

// Name returns the name of the flag that a user argument sets, as upstream's programs
// call it: "name=value" may come with leading dashes and with underscores.
func Name(arg string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return dashed(name)
}

// dashed is how upstream's programs take the name of a flag that is written with
// underscores, as those of some flags are.
func dashed(name string) string { return strings.ReplaceAll(name, "_", "-") }

// Parse sets fs from Merge(source, defaults, user).
func Parse(fs *pflag.FlagSet, source string, defaults map[string]string, user []string) error {
	args, err := Merge(source, defaults, user)
	if err != nil {
		return err
	}
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(dashed(name))
	})
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	for _, arg := range args {
		if err := fs.Parse([]string{arg}); err != nil {
			return &problem.Input{Source: source, Value: strings.TrimPrefix(arg, "--"), Err: err, Want: want(err)}
		}
	}
	return nil
}

func want(err error) string {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		return "a flag of the upstream component"
	}
	return "a value of the flag's type"
}
