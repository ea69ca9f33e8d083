package main

import (
	"context"
	"os"

	ctrapp "github.com/containerd/containerd/v2/cmd/ctr/app"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// runKubectl is upstream's kubectl with these arguments. Like upstream's it
// ends the process by itself when a command fails.
func runKubectl(_ context.Context, args []string) error {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	c := kubectl.NewDefaultKubectlCommandWithArgs(kubectl.KubectlOptions{
		PluginHandler: kubectl.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes),
		Arguments:     append([]string{"kubectl"}, args...),
		ConfigFlags:   genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50),
		IOStreams:     streams,
	})
	c.SetArgs(args)
	if err := cli.RunNoErrOutput(c); err != nil {
		cmdutil.CheckErr(err)
	}
	return nil
}

// runCtr is containerd's ctr with these arguments.
func runCtr(ctx context.Context, args []string) error {
	return ctrapp.New().RunContext(ctx, append([]string{"ctr"}, args...))
}
