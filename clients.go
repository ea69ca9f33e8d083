package main

import (
	"context"
	"fmt"
	"os"

	ctrapp "github.com/containerd/containerd/v2/cmd/ctr/app"
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

// runKubectl is upstream's kubectl with these arguments. Like upstream's it
// ends the process by itself when a command fails.
func runKubectl(_ context.Context, run *cmd.KubectlRun) error {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	flags := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50)
	flags = flags.WithWrapConfigFn(func(cfg *rest.Config) *rest.Config {
		return run.Wrap(cfg, flags.ToRawKubeConfigLoader(), *flags.APIServer, failKubectl)
	})
	c := kubectl.NewDefaultKubectlCommandWithArgs(kubectl.KubectlOptions{
		PluginHandler: pluginHandler{kubectl.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes), run},
		Arguments:     append([]string{"kubectl"}, run.Args...),
		ConfigFlags:   flags,
		IOStreams:     streams,
	})
	c.SetArgs(run.Args)
	if err := cli.RunNoErrOutput(c); err != nil {
		cmdutil.CheckErr(err)
	}
	return nil
}

// failKubectl ends kubectl in the middle of its first request, as kubectl
// itself does with its errors: it would try again and report noise instead.
func failKubectl(err error) {
	fmt.Fprintf(os.Stderr, "a4s: %v\n", err)
	os.Exit(problem.ExitCode(err))
}

// pluginHandler asks before it runs a plugin.
type pluginHandler struct {
	kubectl.PluginHandler
	run *cmd.KubectlRun
}

// Execute implements kubectl.PluginHandler.
func (h pluginHandler) Execute(path string, args, environment []string) error {
	if err := h.run.CheckPlugin(path); err != nil {
		return err
	}
	return h.PluginHandler.Execute(path, args, environment)
}

// runCtr is containerd's ctr with these arguments.
func runCtr(ctx context.Context, args []string) error {
	return ctrapp.New().RunContext(ctx, append([]string{"ctr"}, args...))
}
