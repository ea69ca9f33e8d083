package cmd

import (
	"context"
	"io"
	"os"
	"slices"

	"github.com/urfave/cli/v2"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/version"
	"github.com/a4s-io/a4s/server/datastore/snapshots/archive"
)

// Modes are the parts of a4s behind the commands. main fills it, so that this
// package links none of them.
type Modes struct {
	// Server runs `a4s server` until ctx ends.
	Server func(ctx context.Context, cfg *config.Server) error
	// Agent runs `a4s agent` until ctx ends.
	Agent func(ctx context.Context, cfg *config.Agent) error
	// CheckArguments returns what a server would refuse of the arguments for the API
	// server that this machine is configured with.
	CheckArguments func(l *config.Local) error
	// Killall ends everything that a4s left running on this machine.
	Killall func(ctx context.Context, dataDir string) error
	// RenewNode renews the certificates of the node of this machine.
	RenewNode func(ctx context.Context, dataDir string) error
	// RotateCA replaces the certificate authorities of a stopped server.
	RotateCA func(r *CARotation) (*CARotated, error)
	// SaveSnapshot runs `a4s etcd-snapshot save`, RestoreSnapshot its restore.
	SaveSnapshot    func(ctx context.Context, s *SnapshotSave) (*archive.Entry, error)
	RestoreSnapshot func(ctx context.Context, r *SnapshotRestore) (*SnapshotRestored, error)
	// SnapshotStore returns what opens the storage that snapshots are copied to; it may need a client of
	// the API for that.
	SnapshotStore func(s *config.EtcdS3, client func() (corev1.CoreV1Interface, error)) (archive.Open, error)
	// Kubectl, Ctr and Crictl run the tools of these names.
	Kubectl func(ctx context.Context, run *KubectlRun) error
	Ctr     func(ctx context.Context, args []string) error
	Crictl  func(ctx context.Context, dataDir string, args []string) error
	// SupportBundle runs `a4s support-bundle`.
	SupportBundle func(ctx context.Context, b *SupportBundle) error
	// VMRuntime runs `a4s vm-runtime` until ctx ends.
	VMRuntime func(ctx context.Context, o *VMRuntime) error
}

// App is the a4s command.
type App struct {
	// root is a4s itself, as the parent of its commands, which cli runs.
	root *cli.Command
	cli  *cli.App
	// Stdin, Stdout and Stderr can be replaced before RunContext.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// NewApp returns the a4s command with all its subcommands.
func NewApp(m Modes) *App {
	root := group(&cli.Command{
		Name: "a4s", HelpName: "a4s",
		Usage: "multi-tenant, scale-out Kubernetes in one binary",
	},
		slices.Concat(
			in("Run a4s on this machine", serverCommand(m), agentCommand(m), checkConfigCommand(m), killallCommand(m)),
			in("Look at the cluster", statusCommand(), doctorCommand(m), topCommand(),
				supportBundleCommand(m)),
			in("Work with the API", kubectlCommand(m), tenantCommand()),
			in("Nodes, groups and partitions", tokenCommand(), nodeCommand(), groupsCommand(), partitionCommand()),
			in("Data and keys", etcdSnapshotCommand(m), etcdMemberCommand(), secretsEncryptCommand(),
				certificateCommand(m)),
			in("The node of this machine", runtimeCommand(), bootstrapCommand(), ctrCommand(m), crictlCommand(m),
				vmRuntimeCommand(m)),
			in("About a4s", completionCommand(), versionCommand(), helpCommand()),
		)...)
	root.Flags = append(root.Flags, toggle("version", "v", "print the versions of a4s and of what it is made of"))
	app := &cli.App{
		Name: root.Name, Usage: root.Usage, Flags: root.Flags, Commands: root.Subcommands, HideHelp: true,
		BashComplete: root.BashComplete,
		// Of a4s without a command only --version comes here.
		Action: action(func(c *call) error { return printVersion(c.out) }),
		// A comma is a part of a value.
		DisableSliceFlagSeparator: true,
		// What went wrong, and the exit code, are the business of main.
		ExitErrHandler: func(*cli.Context, error) {},
	}
	app.Setup()
	// Not before, or Setup would put the name of a4s in front of them once more.
	nameCommands(root)
	return &App{root: root, cli: app, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
}

// in puts commands into a category of the help, in this order.
func in(category string, commands ...*cli.Command) []*cli.Command {
	for _, c := range commands {
		c.Category = category
	}
	return commands
}

// nameCommands gives all commands below one their full names, for help and errors before
// urfave/cli runs them.
func nameCommands(parent *cli.Command) {
	for _, c := range parent.Subcommands {
		c.HelpName = parent.HelpName + " " + c.Name
		nameCommands(c)
	}
}

// helpCommand is "help" in lists of commands. The word is understood wherever a command may
// stand (see order).
func helpCommand() *cli.Command {
	return leaf(&cli.Command{Name: "help", ArgsUsage: "[COMMAND]", Usage: "print the help of a command"})
}

// RunContext runs the command line args, whose first element is the name of
// the program.
func (a *App) RunContext(ctx context.Context, args []string) error {
	// What is shown of objects and answers may have been written for the terminal.
	a.cli.Reader = a.Stdin
	a.cli.Writer, a.cli.ErrWriter = problem.Terminal(a.Stdout), problem.Terminal(a.Stderr)
	args = args[min(1, len(args)):]
	if len(args) > 0 && isCompletion(args[0]) {
		return a.complete(ctx, args[0], args[1:])
	}
	o, err := order(a.root, args)
	if err != nil {
		return err
	}
	if o.help {
		printHelp(a.cli.Writer, o.command())
		return nil
	}
	return a.cli.RunContext(ctx, o.whole())
}

func printVersion(w io.Writer) error {
	if _, err := problem.Show(w, "a4s %s (%s)\n", version.Version, version.Commit); err != nil {
		return err
	}
	for _, p := range version.Parts() {
		if _, err := problem.Show(w, "%s %s\n", p.Name, p.Version); err != nil {
			return err
		}
	}
	return nil
}

// source is where the settings of the process that runs a command come from.
func source(args []string) config.Source {
	return config.Source{Args: args, LookupEnv: os.LookupEnv}
}
