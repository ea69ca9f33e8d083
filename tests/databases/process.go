package databases

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// process is a server that does not outlive the process of the test.
type process struct {
	*os.Process
	ended chan error
}

// run starts a command. What kills it with its parent goes by the thread that
// started it, which therefore stays.
func run(cmd *exec.Cmd) (*process, error) {
	started, p := make(chan error), &process{ended: make(chan error, 1)}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
		err := cmd.Start()
		p.Process = cmd.Process
		started <- err
		if err == nil {
			p.ended <- cmd.Wait()
		}
	}()
	return p, <-started
}

// end sends a signal and waits until the process has ended.
func (p *process) end(signal os.Signal) error {
	if err := p.Signal(signal); err != nil {
		return err
	}
	return <-p.ended
}
