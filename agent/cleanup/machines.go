package cleanup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/a4s-io/a4s/agent/ingress"
	recorded "github.com/a4s-io/a4s/agent/vm/process"
)

// machineFiles are where the VM runtime writes down its processes, below the
// run directory: QEMU's and virtiofsd's of each pod.
const machineFiles = "vm/pods/*/*.pid"

// serviceFile is the same for the VM runtime itself, below the data directory.
const serviceFile = "agent/vm/vm-runtime.pid"

// stopMachines ends the VM runtime, which outlives an a4s that was killed, and
// then the virtual machines, which outlive it.
func (k *killer) stopMachines(ctx context.Context) error {
	errs := []error{k.endRecorded(filepath.Join(k.DataDir, serviceFile), "stopped the VM runtime",
		func(p *recorded.Process) error {
			return p.Stop(ctx, containerdGrace)
		})}
	files, err := filepath.Glob(filepath.Join(k.RunDir, machineFiles))
	errs = append(errs, err)
	for _, file := range files {
		errs = append(errs, k.endRecorded(file,
			"killed "+filepath.Base(file[:len(file)-len(".pid")])+" of a virtual machine", (*recorded.Process).Kill))
	}
	return errors.Join(errs...)
}

// stopProxy ends the proxy of Ingresses, which waits for requests when an a4s was killed.
func (k *killer) stopProxy(context.Context) error {
	return k.endRecorded(ingress.PIDFile(k.RunDir), "stopped the proxy of Ingresses", (*recorded.Process).Kill)
}

// endRecorded ends the process that a file names, unless it has ended.
func (k *killer) endRecorded(file, done string, end func(*recorded.Process) error) error {
	p, err := recorded.Open(file)
	if errors.Is(err, recorded.ErrGone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	pid := p.PID()
	if err := errors.Join(end(p), p.Close()); err != nil {
		return err
	}
	k.report(1, "%s, process %d", done, pid)
	return nil
}
