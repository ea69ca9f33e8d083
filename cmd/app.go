package cmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

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
	cli *cli.App
	// Stdout and Stderr can be replaced before RunContext.
	Stdout, Stderr io.Writer
}

// NewApp returns the a4s command with all its subcommands.
func NewApp(m Modes) *App {
	return &App{
		cli: &cli.App{
			Name:  "a4s",
			Usage: "multi-tenant, scale-out Kubernetes in one binary",
			Flags: []cli.Flag{
				&cli.BoolFlag{Name: "version", Aliases: []string{"v"},
					Usage: "print the versions of a4s and of what it carries"},
			},
			Commands: []*cli.Command{
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
				tenantCommand(),
				runtimeCommand(),
				statusCommand(),
				bootstrapCommand(),
				checkConfigCommand(),
				versionCommand(),
				doctorCommand(),
				killallCommand(m),
				completionCommand(),
			},
			HideHelp:    true, // help and version are ours, see dispatch.go
			HideVersion: true,
			// Values such as "feature-gates=A=true,B=true" hold commas.
			DisableSliceFlagSeparator: true,
			// Exit codes are the business of main.
			ExitErrHandler: func(*cli.Context, error) {},
		},
		Stdout: os.Stdout,
		Stderr: os.Stderr,
	}
}

// RunContext runs the command line args, whose first element is the name of
// the program.
func (a *App) RunContext(ctx context.Context, args []string) error {
	a.cli.Writer, a.cli.ErrWriter = a.Stdout, a.Stderr
	var rest []string
	if len(args) > 0 {
		rest = args[1:]
	}
	inv, err := resolve(a.cli, rest)
	if err != nil {
		return err
	}
	switch {
	case inv.version:
		return printVersion(a.Stdout)
	case inv.help:
		return a.printHelp(inv.path)
	}
	return a.cli.RunContext(ctx, slices.Concat([]string{a.cli.Name}, inv.args))
}

func printVersion(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "a4s %s (%s)\n", version.Version, version.Commit); err != nil {
		return err
	}
	for _, p := range version.Parts() {
		if _, err := fmt.Fprintf(w, "%s %s\n", p.Name, p.Version); err != nil {
			return err
		}
	}
	return nil
}

// leaf completes a command without subcommands.
func leaf(c *cli.Command) *cli.Command {
	c.HideHelp = true
	return c
}

// source is where the settings of the process that runs a command come from.
func source(args []string) config.Source {
	return config.Source{Args: args, LookupEnv: os.LookupEnv}
}

// wantArgs checks the number of arguments of a command; most is -1 for any.
func wantArgs(c *cli.Context, least, most int, want string) error {
	n := c.NArg()
	if n >= least && (most < 0 || n <= most) {
		return nil
	}
	in := &problem.Input{Source: "arguments of " + c.Command.HelpName, Want: want}
	if n > most && most >= 0 {
		in.Value = c.Args().Get(most)
	} else {
		in.Err = config.ErrNoValue
	}
	return in
}
