package process

import (
	"bytes"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// Start starts a command that is killed when this process ends. wait waits until it has ended, as that of the
// command does, and has to be called; it may be, by several.
func Start(cmd *exec.Cmd) (wait func() error, err error) {
	started, awaited, ended := make(chan error), make(chan struct{}), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		<-awaited
		ended <- cmd.Wait()
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return sync.OnceValue(func() error {
		close(awaited)
		return <-ended
	}), nil
}

// CombinedOutput runs a command that is killed when this process ends, and returns what it has said.
func CombinedOutput(cmd *exec.Cmd) ([]byte, error) {
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	wait, err := Start(cmd)
	if err != nil {
		return nil, err
	}
	err = wait()
	return said.Bytes(), err
}
