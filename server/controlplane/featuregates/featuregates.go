package featuregates

import (
	"errors"
	"fmt"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercompatibility "k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"

	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/upstreamflags"
)

// Check finds what upstream would refuse only when the component runs. source is the
// flag of a4s that carries args, each "name=value".
func Check(source string, args []string) error {
	var emulated, least *version.Version
	var given []string // of versions
	for _, arg := range args {
		_, value, _ := strings.Cut(arg, "=")
		var err error
		want := "feature gates, KNOWN=true|false each"
		switch upstreamflags.Name(arg) {
		case "feature-gates":
			err = gates(value)
		case "emulated-version":
			given = append(given, arg)
			emulated, err = parse(value)
			want = "a version such as 1.36, or kube=1.36"
		case "min-compatibility-version":
			given = append(given, arg)
			least, err = parse(value)
			want = "a version such as 1.36, or kube=1.36"
		}
		if err != nil {
			return &problem.Input{Source: source, Value: arg, Err: err, Want: want}
		}
	}
	if err := versions(emulated, least); err != nil {
		return &problem.Input{Source: source, Value: strings.Join(given, " "), Err: err,
			Want: "versions that this release can emulate"}
	}
	return nil
}

// gates checks "A=true,kube:B=false" against a copy of the gates of the process.
func gates(list string) error {
	by := map[string][]string{}
	for gate := range strings.SplitSeq(list, ",") {
		component, setting, named := strings.Cut(gate, ":")
		if !named {
			component, setting = "", gate
		}
		by[component] = append(by[component], setting)
	}
	if by[""] != nil && by[compatibility.DefaultKubeComponent] != nil {
		return errors.New("gates with the prefix kube: and without it")
	}
	for component, settings := range by {
		var all featuregate.MutableVersionedFeatureGate = utilfeature.DefaultMutableFeatureGate
		if component != "" && component != compatibility.DefaultKubeComponent {
			var ok bool
			other := apiservercompatibility.DefaultComponentGlobalsRegistry.FeatureGateFor(component)
			if all, ok = other.(featuregate.MutableVersionedFeatureGate); !ok {
				return fmt.Errorf("no component %q", component)
			}
		}
		if err := all.DeepCopy().Set(strings.Join(settings, ",")); err != nil {
			return err
		}
	}
	return nil
}

// parse reads "1.36" or "kube=1.36".
func parse(text string) (*version.Version, error) {
	if component, v, ok := strings.Cut(text, "="); ok {
		if component != compatibility.DefaultKubeComponent {
			return nil, fmt.Errorf("no component %q", component)
		}
		text = v
	}
	return version.Parse(text)
}

// versions asks upstream about versions, and puts back what was before.
func versions(emulated, least *version.Version) error {
	if emulated == nil && least == nil {
		return nil
	}
	registry := apiservercompatibility.DefaultComponentGlobalsRegistry
	now := registry.EffectiveVersionFor(compatibility.DefaultKubeComponent)
	effective, ok := now.(compatibility.MutableEffectiveVersion)
	if !ok {
		return nil // upstream says the rest
	}
	before, beforeLeast := effective.EmulationVersion(), effective.MinCompatibilityVersion()
	defer func() {
		effective.SetEmulationVersion(before)
		effective.SetMinCompatibilityVersion(beforeLeast)
	}()
	if emulated != nil {
		effective.SetEmulationVersion(emulated)
	}
	if least != nil {
		effective.SetMinCompatibilityVersion(least)
	}
	return utilerrors.NewAggregate(effective.Validate()) // on one line
}
