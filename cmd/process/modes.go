package process

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent"
	"github.com/a4s-io/a4s/agent/cleanup"
	"github.com/a4s-io/a4s/agent/host/nodeaddr"
	"github.com/a4s-io/a4s/agent/nodechild"
	"github.com/a4s-io/a4s/cmd"
	"github.com/a4s-io/a4s/cmd/supportbundle"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/health"
	"github.com/a4s-io/a4s/internal/instance"
	"github.com/a4s-io/a4s/internal/logging"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/preflight"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/version"
	"github.com/a4s-io/a4s/server"
	"github.com/a4s-io/a4s/server/datastore/snapshots/bucketof"
)

// StopSignals ask servers, agents and the commands of a4s itself to end.
func StopSignals() []os.Signal { return []os.Signal{syscall.SIGINT, syscall.SIGTERM} }

// Modes connects the commands with what they run. A tool of upstream that ends
// by itself calls exit.
func Modes(exit func(code int)) cmd.Modes {
	return cmd.Modes{
		Server: runServer,
		Agent:  runAgent,
		CheckArguments: func(l *config.Local) error {
			return server.CheckArguments(l.KubeAPIServerArgs, l.AuditPolicyFile)
		},
		Killall: func(ctx context.Context, dataDir string) error {
			return cleanup.Killall(ctx, cleanup.Options{DataDir: dataDir, Out: problem.Terminal(os.Stdout)})
		},
		RenewNode:       agent.RenewCertificates,
		RotateCA:        rotateCA,
		SaveSnapshot:    saveSnapshot,
		RestoreSnapshot: restoreSnapshot,
		SnapshotStore:   bucketof.Settings,
		SupportBundle:   supportbundle.Run,

		Kubectl: func(ctx context.Context, run *cmd.KubectlRun) error { return runKubectl(ctx, run, exit) },
		Ctr:     runCtr,
		Crictl:  runCrictl,

		VMRuntime: runVMRuntime,
	}
}

// stopsWithin is how long a server or an agent takes to end, whatever hangs, and
// nodeStopsWithin how long the node of a server does. What is not through by then ends
// with the process: everything that is kept outlives a crash as well.
const (
	stopsWithin     = 8 * time.Second
	nodeStopsWithin = 5 * time.Second
)

// errDone ends a process that was started for one task.
var errDone = errors.New("done")

// runServer is `a4s server`: the control plane and, unless it is disabled,
// the node of this machine.
func runServer(ctx context.Context, cfg *config.Server) error {
	return supervise(ctx, "server", &cfg.Agent, func(ctx context.Context, p *process) error {
		started := time.Now()
		if err := spareFromProxy(cfg, p.addr.Strings()); err != nil {
			return err
		}
		control, err := server.New(ctx, cfg, net.ParseIP(p.addr.IPs[0].String()))
		if err != nil {
			return err
		}
		if cfg.ClusterReset {
			if err := control.Reset(ctx); err != nil {
				return err
			}
			return errDone
		}
		var node *nodechild.Node
		if !cfg.DisableAgent {
			if node, err = p.prepareNode(ctx, &cfg.Agent); err != nil {
				return err
			}
			control.Others(func() []component.State { return append(p.node.States(), node.States()...) })
		}
		control.Health(p.monitor)
		// Nothing was changed so far; from here on the machine is used.
		if err := control.Init(ctx); err != nil {
			return err
		}
		var up *server.Running
		serve := func(ctx context.Context) error {
			var err error
			if up, err = control.Serve(ctx, p.group); err != nil {
				return err
			}
			if node != nil {
				node.Join(nodechild.Server{URL: up.URL, Token: up.Token})
			}
			if err := control.WaitReady(ctx, p.group); err != nil {
				return err
			}
			logrus.Infof("Control plane is ready after %s", time.Since(started).Round(10*time.Millisecond))
			return nil
		}
		if node == nil {
			if err := serve(ctx); err != nil {
				return err
			}
		} else {
			// The two halves know nothing of each other until the node joins.
			p.node.Start(ctx, node.Component())
			if err := component.Together(ctx, serve,
				func(ctx context.Context) error { return node.Wait(ctx, p.node) }); err != nil {
				return err
			}
			if err := up.MarkControlPlane(ctx, cfg.Agent.NodeName); err != nil {
				return err
			}
			if err := up.HoldMember(ctx, cfg.Agent.NodeName); err != nil {
				return err
			}
			logrus.Infof("Node %s is ready after %s", cfg.Agent.NodeName,
				time.Since(started).Round(10*time.Millisecond))
		}
		logrus.Infof("Use the cluster:  a4s kubectl get nodes   (or: export KUBECONFIG=%s)", up.Kubeconfig)
		logrus.Infof("Add a node:       a4s agent --server %s --token \"$(cat %s)\"", up.JoinURL, up.NodeTokenFile)
		return nil
	})
}

// runAgent is `a4s agent`: a node of a cluster elsewhere.
func runAgent(ctx context.Context, cfg *config.Agent) error {
	return supervise(ctx, "agent", cfg, func(ctx context.Context, p *process) error {
		started := time.Now()
		node, err := agent.Prepare(ctx, cfg, p.addr)
		if err != nil {
			return err
		}
		node.Health(p.monitor, true)
		if err := node.StartRuntime(ctx, p.group); err != nil {
			return err
		}
		if cfg.BootstrapPodAPI {
			if err := node.JoinLater(ctx, p.group, cfg.ServerURLs, cfg.Token); err != nil {
				return err
			}
			logrus.Infof("Node %s takes bootstrap pods after %s:  a4s bootstrap apply -f FILE", cfg.NodeName,
				time.Since(started).Round(10*time.Millisecond))
			return nil
		}
		if err := node.Join(ctx, p.group, cfg.ServerURLs, cfg.Token); err != nil {
			return err
		}
		logrus.Infof("Node %s is ready after %s", cfg.NodeName, time.Since(started).Round(10*time.Millisecond))
		return nil
	})
}

// process is what server and agent share.
type process struct {
	lock    *instance.Lock
	addr    nodeaddr.Choice
	monitor *health.Monitor
	group   *component.Group
	// node is of the node of a server, which is stopped first.
	node *component.Group
}

// supervise is what server and agent share: the log, the lock, the identity
// of the machine, and the life of the component groups.
func supervise(
	ctx context.Context, mode string, cfg *config.Agent, start func(context.Context, *process) error,
) (err error) {
	log, err := logging.Setup(logging.Options{Debug: cfg.Debug, Verbosity: cfg.Verbosity,
		VModule: cfg.VModule, File: cfg.LogFile})
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // nothing is left to report it to
	setUpstreamGlobals()
	if err := preflight.Root("a4s " + mode); err != nil {
		return err
	}
	given := cfg.NodeName != ""
	if cfg.NodeName, err = instance.ChooseNodeName(cfg.NodeName, cfg.WithNodeID, instance.NodeIDFile); err != nil {
		return err
	}
	former, err := instance.CheckNodeName(cfg.NodeName, given,
		pki.NodeFilesIn(filepath.Join(cfg.DataDir, "agent", "tls")).Client.Cert)
	if err != nil {
		return err
	}
	if former != "" {
		logrus.Warnf("This machine was node %s and is node %s now: delete the former when its pods are gone",
			former, cfg.NodeName)
	}
	addr, err := nodeaddr.Choose(cfg.NodeIPs, cfg.FlannelIface)
	if err != nil {
		return err
	}
	lock, err := instance.Acquire(instance.RunDir, cfg.DataDir)
	if err != nil {
		return err
	}
	defer lock.Release() //nolint:errcheck // the lock ends with the process

	sd := takeNotifier()
	if err := extendPath(); err != nil {
		return err
	}
	logrus.Infof("Starting a4s %s %s (Kubernetes %s) on node %s, address %s (%s), data in %s",
		mode, version.Version, version.Kubernetes, cfg.NodeName, addr.IPs[0], addr.Reason, cfg.DataDir)
	entry := logrus.NewEntry(logrus.StandardLogger())
	p := &process{lock: lock, addr: addr, group: component.NewGroup(entry), node: component.NewGroup(entry)}
	defer func() {
		log.Stopping()
		began := time.Now()
		if stopErr := errors.Join(p.node.StopBy(began.Add(nodeStopsWithin)),
			p.group.StopBy(began.Add(stopsWithin))); stopErr != nil {
			logrus.WithError(stopErr).Warn("Not everything stopped in time")
		}
		logrus.Info("Stopped")
	}()
	p.monitor = newMonitor(mode, cfg, func() []component.State { return append(p.group.States(), p.node.States()...) })
	p.group.Start(ctx, p.monitor.Component())
	if err := start(ctx, p); err != nil {
		if errors.Is(err, errDone) {
			return nil
		}
		if ctx.Err() != nil {
			logrus.Info("Stopping: asked to end during the start")
			return nil
		}
		return err
	}
	sd.notify(daemon.SdNotifyReady)
	select {
	case <-ctx.Done():
		logrus.Info("Stopping: pods keep running, `a4s killall` ends them")
		sd.notify(daemon.SdNotifyStopping)
		return nil
	case err := <-p.group.Failed():
		return err
	}
}
