package cmd

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
	// Killall ends everything that a4s left running on this machine.
	Killall func(ctx context.Context, dataDir string) error
	// RenewNode renews the certificates of the node of this machine.
	RenewNode func(ctx context.Context, dataDir string) error
	// RotateCA replaces the certificate authorities of a stopped server.
	RotateCA func(r *CARotation) (*CARotated, error)
	// SaveSnapshot runs `a4s etcd-snapshot save`, RestoreSnapshot its restore.
	SaveSnapshot    func(ctx context.Context, s *SnapshotSave) (*archive.Entry, error)
	RestoreSnapshot func(ctx context.Context, r *SnapshotRestore) (*SnapshotRestored, error)
	// Kubectl and Ctr run the tools of these names.
	Kubectl func(ctx context.Context, run *KubectlRun) error
	Ctr     func(ctx context.Context, args []string) error
	// VMRuntime runs `a4s vm-runtime` until ctx ends.
	VMRuntime func(ctx context.Context, o *VMRuntime) error
}

// App is the a4s command.
type App struct {
	root *cobra.Command
	// Stdout and Stderr can be replaced before RunContext.
	Stdout, Stderr io.Writer
}

// NewApp returns the a4s command with all its subcommands.
func NewApp(m Modes) *App {
	// Libraries leave flags of their programs here, and cobra gives them to every command,
	// those of kubectl too.
	pflag.CommandLine = pflag.NewFlagSet("a4s", pflag.ContinueOnError)
	root := group(&cobra.Command{
		Use:   "a4s",
		Short: "multi-tenant, scale-out Kubernetes in one binary",
		// What went wrong is the business of main.
		SilenceErrors: true,
		SilenceUsage:  true,
	},
		serverCommand(m),
		agentCommand(m),
		kubectlCommand(m),
		ctrCommand(m),
		vmRuntimeCommand(m),
		tokenCommand(),
		certificateCommand(m),
		etcdSnapshotCommand(m),
		secretsEncryptCommand(),
		etcdMemberCommand(),
		groupsCommand(),
		partitionCommand(),
		nodeCommand(),
		tenantCommand(),
		runtimeCommand(),
		statusCommand(),
		bootstrapCommand(),
		checkConfigCommand(),
		versionCommand(),
		doctorCommand(),
		killallCommand(m),
		completionCommand(),
	)
	root.Flags().BoolP("version", "v", false, "print the versions of a4s and of what it is made of")
	root.PersistentFlags().BoolP("help", "h", false, "print this help")
	root.RunE = func(c *cobra.Command, args []string) error {
		if c.Flags().Changed("version") {
			return printVersion(c.OutOrStdout())
		}
		return helpOf(c, args)
	}
	root.SetHelpCommand(&cobra.Command{
		Use: "help [COMMAND]", Short: "print the help of a command", DisableFlagsInUseLine: true,
		RunE: func(_ *cobra.Command, args []string) error { return helpOf(root, args) },
	})
	root.SetHelpTemplate(helpHead + helpCommands + helpFlags)
	root.SetFlagErrorFunc(flagMistake)
	root.CompletionOptions.DisableDefaultCmd = true // ours has other words
	completeFlags(root)
	return &App{root: root, Stdout: os.Stdout, Stderr: os.Stderr}
}

// Templates of help; a command whose flags config reads has others than helpFlags.
const (
	helpHead = "{{.CommandPath}}: {{.Short}}\n\nUsage: {{.UseLine}}\n{{with .Long}}\n{{.}}\n{{end}}"

	helpCommands = "{{if .HasAvailableSubCommands}}\nCommands:\n{{range .Commands}}{{if .IsAvailableCommand}}" +
		"  {{rpad .Name .NamePadding}} {{.Short}}\n{{end}}{{end}}{{end}}"

	helpFlags = "\nFlags:\n{{.LocalFlags.FlagUsagesWrapped 100}}{{.InheritedFlags.FlagUsages}}" +
		"{{if .HasAvailableSubCommands}}\n\"{{.CommandPath}} COMMAND --help\" says more about a command.\n{{end}}"
)

// RunContext runs the command line args, whose first element is the name of
// the program.
func (a *App) RunContext(ctx context.Context, args []string) error {
	// What is shown of objects and answers may have been written for the terminal.
	a.root.SetOut(problem.Terminal(a.Stdout))
	a.root.SetErr(problem.Terminal(a.Stderr))
	a.root.SetArgs(kubectlCompletes(args[min(1, len(args)):]))
	return a.root.ExecuteContext(ctx)
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
