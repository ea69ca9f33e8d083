package kubectl

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/a4s-io/a4s/cmd"
	"github.com/a4s-io/a4s/internal/problem"
)

// Run is upstream's kubectl with the arguments of run. Like upstream's it ends
// the process by itself when a command fails; fail does so in the middle of
// its first request, after which kubectl would try again and report noise.
func Run(run *cmd.KubectlRun, fail func(error)) error {
	root, err := newRoot(run, genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
		func(err error) {
			if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
				cmdutil.CheckErr(err) // what the server says, in kubectl's words
			}
			fail(err)
		})
	if err != nil {
		return err
	}
	err = cli.RunNoErrOutput(root)
	if in := (*problem.Input)(nil); errors.As(err, &in) {
		return err
	}
	cmdutil.CheckErr(err)
	return nil
}

// newRoot is kubectl's tree of commands with what spaces add to it.
func newRoot(run *cmd.KubectlRun, streams genericiooptions.IOStreams, fail func(error)) (*cobra.Command, error) {
	// Libraries leave flags of their programs here, and cobra would give them to every command.
	pflag.CommandLine = pflag.NewFlagSet("kubectl", pflag.ContinueOnError)
	flags := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).
		WithDiscoveryQPS(50)
	flags = flags.WithWrapConfigFn(func(cfg *rest.Config) *rest.Config {
		if cfg.UserAgent == "" { // servers tell kubectl what they do not tell programs
			_, version, _ := strings.Cut(rest.DefaultKubernetesUserAgent(), "/")
			cfg.UserAgent = "kubectl/" + version
		}
		return run.Wrap(cfg, flags.ToRawKubeConfigLoader(), *flags.APIServer, fail)
	})
	root := kubectl.NewDefaultKubectlCommandWithArgs(kubectl.KubectlOptions{
		PluginHandler: pluginHandler{upstreamPlugins(), run},
		Arguments:     append([]string{"kubectl"}, run.Args...),
		ConfigFlags:   flags,
		IOStreams:     streams,
	})
	root.SetArgs(run.Args)
	run.Warn = func(text string) { fmt.Fprintf(streams.ErrOut, "Warning: %s\n", text) }
	f := cmdutil.NewFactory(cmdutil.NewMatchVersionFlags(flags))
	readManifests(root, run)
	describeTenants()
	return root, errors.Join(
		addTenantFlag(root, run, f),
		addCreateTenant(root, f, streams),
		copyInSpaces(root, run),
		configureSpaces(root, run),
	)
}

// find returns a command of kubectl.
func find(root *cobra.Command, path ...string) (*cobra.Command, error) {
	c, rest, err := root.Find(path)
	if err == nil && (len(rest) > 0 || c.Name() != path[len(path)-1]) {
		err = fmt.Errorf("kubectl has no command %q", strings.Join(path, " "))
	}
	return c, err
}

func upstreamPlugins() kubectl.PluginHandler {
	return kubectl.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes)
}

// pluginHandler asks before it runs a plugin.
type pluginHandler struct {
	kubectl.PluginHandler
	run *cmd.KubectlRun
}

// Lookup implements kubectl.PluginHandler. Nothing stands in for a command
// that is added here, as for kubectl's own.
func (h pluginHandler) Lookup(filename string) (string, bool) {
	if strings.HasPrefix(filename+"-", "create-tenant-") {
		return "", false
	}
	return h.PluginHandler.Lookup(filename)
}

// Execute implements kubectl.PluginHandler.
func (h pluginHandler) Execute(path string, args, environment []string) error {
	if err := h.run.CheckPlugin(path); err != nil {
		return err
	}
	return h.PluginHandler.Execute(path, args, environment)
}
